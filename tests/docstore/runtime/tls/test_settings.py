"""A node's TLS settings: valid combinations, missing settings, and unusable files."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from docstore.cli.several_settings import settings_of_each
from docstore.config import from_environment, parse
from docstore.errors import BadConfig
from docstore.runtime.tls import credentials
from docstore.runtime.tls.authority import make_certificate
from docstore.runtime.tls.certificates import (
    NodeIdentity,
    Revocations,
    certificate_in,
    identities,
    revoked_in,
)
from docstore.runtime.tls.credentials import Credentials
from docstore.runtime.tls.settings import TlsFiles, tls_files
from tests.docstore.runtime.tls.papers import EXPIRED_DAYS, HOSTS, files_of, group_of, settings_of

PAIR = {"tls_cert_file": "c", "tls_key_file": "k"}
OTHERS = "tls_ca_file (peer), gossip_key_file (gossip)"
EVERYWHERE = {"data": "d", "listen": "0.0.0.0:9000", "advertise": "db:9000"}


def test_one_certificate_serves_clients_and_peers_unless_there_are_two() -> None:
    assert tls_files({}) == TlsFiles()
    only_clients = tls_files(PAIR)
    assert (only_clients.scheme, only_clients.peers) == ("https", None)
    both = tls_files({**PAIR, "tls_ca_file": "ca"})
    assert both.peers == both.clients
    apart = tls_files(
        {**PAIR, "tls_ca_file": "ca", "peer_tls_cert_file": "p", "peer_tls_key_file": "q"}
    )
    assert apart.peers is not None
    assert apart.clients is not None
    assert (apart.clients.cert, apart.peers.cert) == (Path("c"), Path("p"))
    assert {path.name for path in apart.paths} == {"c", "k", "p", "q", "ca"}
    only_links = tls_files(
        {"tls_ca_file": "ca", "peer_tls_cert_file": "p", "peer_tls_key_file": "q"}
    )
    assert (only_links.scheme, only_links.clients) == ("http", None)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"tls_cert_file": "c"}, "tls_cert_file: needs tls_key_file"),
        ({"tls_key_file": "c"}, "tls_key_file: needs tls_cert_file"),
        ({"tls_ca_file": "ca"}, "tls_ca_file: .* tls_cert_file"),
        ({**PAIR, "tls_revoked_file": "r"}, "tls_revoked_file: .* tls_ca_file"),
        ({"peer_tls_cert_file": "p", "peer_tls_key_file": "q"}, "peer_tls_cert_file: .* tls_ca"),
        ({**PAIR, "node_id": "a", "bootstrap": "a=http://h:1"}, "bootstrap: .* https://"),
        ({"node_id": "a", "bootstrap": "a=https://h:1"}, "bootstrap: .* http://"),
        ({**PAIR, "join": "https://h:1,http://h:2"}, "join: 'http://h:2': .* https://"),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    settings: dict[str, object], named: str
) -> None:
    with pytest.raises(BadConfig, match=f"^{named}"):
        parse({"data": "d", **settings})


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (
            {},
            f"tls_cert_file and tls_key_file (listen), {OTHERS}",
        ),
        (PAIR, OTHERS),
        ({**PAIR, "tls_ca_file": "ca"}, "gossip_key_file (gossip)"),
        ({**PAIR, "gossip_key_file": "g"}, "tls_ca_file (peer)"),
        ({**PAIR, "gossip_key_file": "g", "peer": "127.0.0.1:2"}, ""),
        ({**PAIR, "gossip_key_file": "g", "tls_ca_file": "ca"}, ""),
        ({"insecure": True}, ""),
    ],
)
def test_beyond_loopback_a_plain_text_port_is_named(
    settings: dict[str, object], missing: str
) -> None:
    if not missing:
        parse(EVERYWHERE | settings)
        return
    with pytest.raises(BadConfig, match=re.escape(f"without it, say {missing}") + r"\Z"):
        parse(EVERYWHERE | settings)


def test_variables_of_other_commands_are_ignored_by_a_node() -> None:
    assert from_environment({"DOCSTORE_CACERT": "ca.pem", "DOCSTORE_TLS_CA_FILE": "x"}) == {
        "tls_ca_file": "x"
    }


def test_a_node_announces_an_https_address() -> None:
    config = parse({"data": "d", **PAIR})
    assert config.url == config.public()["addresses"]["http"] == "https://127.0.0.1:8001"


def test_names_of_nodes_are_found_among_other_uris() -> None:
    uris = ("spiffe://cluster/a/node/n1", "spiffe://b/node/x.y", "https://h/node/n1",
            "spiffe://cluster/a/node/", "spiffe://cluster/a/node/-", "spiffe://a")  # fmt: skip
    assert identities(uris) == {
        NodeIdentity("spiffe://cluster/a", "n1"),
        NodeIdentity("spiffe://b", "x.y"),
    }


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = group_of(tmp_path_factory.mktemp("papers"))
    make_certificate(directory, ["late"], HOSTS, EXPIRED_DAYS)
    (directory / "nonsense.pem").write_text("no certificate")
    (directory / "revoked").write_text("# none\nxyz\n")
    key = serialization.load_pem_private_key((directory / "n1-key.pem").read_bytes(), None)
    (directory / "locked-key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
    )  # fmt: skip
    return directory


@pytest.mark.parametrize(
    ("node", "changed", "expected"),
    [
        ("n9", {}, "tls_cert_file: .*n9.pem: No such file"),
        ("nonsense", {}, "tls_cert_file: .* has no certificate in PEM"),
        ("late", {}, r"tls_cert_file: .* expired on \d{4}-\d\d-\d\d \d\d:\d\d UTC"),
        ("n2", {}, "tls_cert_file: .* names spiffe://cluster/films/node/n2, not n1"),
        ("n1", {"tls_key_file": "n9"}, "tls_key_file: n9: No such file"),
        ("n1", {"tls_key_file": "{}/n2-key.pem"}, "tls_key_file: .* is not the certificate's"),
        ("n1", {"tls_key_file": "{}/n1.pem"}, "tls_key_file: .* has no key in PEM"),
        ("n1", {"tls_key_file": "{}/locked-key.pem"}, "tls_key_file: .* must not have a password"),
        ("n1", {"tls_ca_file": "n9"}, "tls_ca_file: n9: No such file"),
        ("n1", {"tls_ca_file": "{}/nonsense.pem"}, "tls_ca_file: .* no certificate in PEM"),
        ("n1", {"tls_revoked_file": "n9"}, "tls_revoked_file: n9: No such file"),
        (
            "n1",
            {"tls_revoked_file": "{}/revoked"},
            "tls_revoked_file: .*, line 2: must be a serial",
        ),
    ],
)
def test_unusable_files_are_named(
    papers: Path, node: str, changed: dict[str, str], expected: str
) -> None:
    said = {key: value.format(papers) for key, value in changed.items()}
    with pytest.raises(BadConfig, match=f"^{expected}"):
        Credentials(files_of(papers, node, **said), "n1")


def test_a_certificate_that_is_not_valid_yet_is_refused(papers: Path) -> None:
    found = Credentials(files_of(papers, "n1"), "n1")
    assert found.expires_s > datetime.now(UTC).timestamp()
    path = papers / "n1.pem"
    before = datetime.now(UTC) - timedelta(days=1)
    with pytest.raises(BadConfig, match="is not valid before"):
        certificate_in("tls_cert_file", path).refuse_untimely("tls_cert_file", path, before)


async def test_a_certificate_that_expires_soon_is_logged_once_a_day(
    papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_certificate(papers, ["soon"], HOSTS, 13)
    monkeypatch.setattr(credentials, "LOOK_S", 0.001)
    for again, least, most in ((timedelta(0), 3, 10**6), (timedelta(days=1), 1, 1)):
        monkeypatch.setattr(credentials, "WARN_AGAIN", again)
        with capture_logs() as lines:
            watching = asyncio.create_task(Credentials(files_of(papers, "soon"), "soon").watch())
            for _ in range(50):
                await asyncio.sleep(0.002)
            watching.cancel()
        expected = [line for line in lines if line["event"] == "the certificate expires soon"]
        assert least <= len(expected) <= most
    with capture_logs() as lines:
        Credentials(files_of(papers, "n1"), "n1")
        (papers / "soon-key.pem").chmod(0o644)
        Credentials(files_of(papers, "soon"), "soon")
    assert [line["event"] for line in lines] == [
        "the certificate expires soon", "other users of this computer may read the secret",
    ]  # fmt: skip


def test_a_certificate_may_name_all_nodes_of_a_machine(papers: Path) -> None:
    make_certificate(papers, ["a-0", "a-1"], HOSTS, 1)
    for node in ("a-0", "a-1"):
        assert Credentials(files_of(papers, "a-0"), node).contexts.dialling is not None
    with pytest.raises(BadConfig, match="not a-2"):
        Credentials(files_of(papers, "a-0"), "a-2")


def test_revocations_are_read_in_any_spelling(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    path.write_text("0A:ff\n\n  0x10  # of n3\n# nothing\nspiffe://cluster/films/node/n3\n")
    assert revoked_in(path) == Revocations(
        frozenset({0x0AFF, 0x10}), frozenset({NodeIdentity("spiffe://cluster/films", "n3")})
    )


def test_nodes_of_a_machine_get_settings_with_their_scheme() -> None:
    expected = settings_of_each({"data": "d", "node_id": "a", **PAIR}, 2)
    assert expected[1]["bootstrap"] == "a-0=https://127.0.0.1:8001,a-1=https://127.0.0.1:8004"
    assert settings_of(Path("x"), "n1")["tls_key_file"] == "x/n1-key.pem"
