"""Settings: accepted values, and the one line that names a wrong one."""

from pathlib import Path

import pytest

from docstore.cli.serve import read_settings
from docstore.cli.several_settings import flags_of
from docstore.config import KEYS, from_environment, merged, parse
from docstore.errors import BadConfig
from docstore.model import settings as settings_of
from docstore.model.address import Address, parse_address


def test_ports_follow_the_clients_port_unless_they_are_given() -> None:
    config = parse({"data": "d", "listen": "127.0.0.1:9000", "gossip": "127.0.0.1:7"})
    assert (config.listen_port, config.peer_port, config.gossip.port) == (9000, 9001, 7)
    assert config.data == Path("d")
    assert config.gossip_preset == "loopback"


@pytest.mark.parametrize(
    ("settings", "reached"),
    [
        ({"listen": "127.0.0.1:9000"}, ("127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:9002")),
        ({"listen": "[::1]:9000"}, ("[::1]:9000", "[::1]:9001", "[::1]:9002")),
        # One word is enough: the same host, and the ports that are bound.
        (
            {"listen": "0.0.0.0:9000", "advertise": "db.lan:80", "insecure": True},
            ("db.lan:80", "db.lan:9001", "db.lan:9002"),
        ),
        (
            {"insecure": True, "listen": "[::]:9000", "peer": "[::]:7", "advertise": "[fd0::1]:80"},
            ("[fd0::1]:80", "[fd0::1]:7", "[fd0::1]:9002"),
        ),
        # A port bound at a host of its own is reached there, unless its address is given.
        (
            {"listen": "127.0.0.1:1", "gossip": "127.0.0.2:2", "advertise": "h:3"},
            ("h:3", "h:2", "127.0.0.2:2"),
        ),
        (
            {"peer_advertise": "p:1", "gossip_advertise": "g:2"},
            ("127.0.0.1:8001", "p:1", "g:2"),
        ),
        # The list of founders has the addresses of a founder.
        (
            {
                "listen": "0.0.0.0:9000", "insecure": True, "node_id": "a",
                "bootstrap": "a=http://db.lan:80,b=http://b:2",
            },
            ("db.lan:80", "db.lan:9001", "db.lan:9002"),
        ),
    ],
)  # fmt: skip
def test_a_node_shows_its_advertised_addresses(
    settings: dict[str, object], reached: tuple[str, str, str]
) -> None:
    config = parse({"data": "d"} | settings)
    said = (config.advertise, config.peer_advertise, config.gossip_advertise)
    assert tuple(map(str, said)) == reached
    assert tuple(config.public()["addresses"].values()) == (f"http://{reached[0]}", *reached[1:])


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "0", "[::0]"])
def test_a_wildcard_address_cannot_be_advertised(host: str) -> None:
    bound = {"data": "d", "insecure": True, "listen": f"{host}:9000"}
    with pytest.raises(BadConfig, match=r"^advertise: .* every address of this machine"):
        parse(bound)
    for key in ("advertise", "peer_advertise", "gossip_advertise"):
        with pytest.raises(BadConfig, match=f"^{key}: .* is a wildcard"):
            parse(bound | {"advertise": "127.0.0.1:9000", key: f"{host}:9000"})
    with pytest.raises(BadConfig, match=r"^bootstrap: .* is a wildcard"):
        parse({"data": "d", "node_id": "a", "bootstrap": f"a=http://{host}:9000"})


def test_founders_are_read_from_their_list() -> None:
    config = parse(
        {"data": "d", "node_id": "b", "bootstrap": "a=http://127.0.0.1:1,b=http://127.0.0.1:4/"}
    )
    assert [(each.id, each.port) for each in config.bootstrap] == [("a", 1), ("b", 4)]


def test_a_node_knows_the_names_that_its_settings_give_it() -> None:
    founders = "a=http://a.example:1,b=http://b.example:4"
    settings = {"data": "d", "node_id": "b", "bootstrap": founders, "allowed_hosts": ["db", "*"]}
    assert parse(settings).host_names == {"127.0.0.1", "b.example", "db", "*"}


def test_the_later_layer_wins_and_none_does_not_count() -> None:
    layers = ({"zone": "file", "slots": 4}, {"zone": "environment"}, {"zone": None})
    assert merged(*layers) == {"zone": "environment", "slots": 4}


def test_a_list_setting_takes_repeated_flags_commas_or_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "node.toml"
    file.write_text('data = "d"\nservice = ["a:A", "b:B"]\njoin = "http://h:1,http://h:2"\n')
    from_file, _ = read_settings(["--config", str(file)])
    assert parse(from_file).services.classes == ("a:A", "b:B")
    assert parse(from_file).join == ("http://h:1", "http://h:2")
    monkeypatch.setenv("DOCSTORE_SERVICE", "c:C, d:D")
    environment, _ = read_settings(["--config", str(file)])
    assert parse(environment).services.classes == ("c:C", "d:D")
    flags = ["--service", "e:E", "--service", "f:F", "--join", "http://h:3", "--join", "http://h:4"]
    said, _ = read_settings(["--config", str(file), *flags])
    assert parse(said).services.classes == ("e:E", "f:F")
    assert parse(said).join == ("http://h:3", "http://h:4")
    assert "--service=e:E,f:F" in flags_of({"service": ["e:E", "f:F"]})


def test_the_environment_is_read_by_name_and_checked() -> None:
    found = from_environment({"DOCSTORE_ZONE": "z", "HOME": "/", "DOCSTORE_URL": "http://x"})
    assert found == {"zone": "z"}
    with pytest.raises(BadConfig, match="DOCSTORE_ZONES"):
        from_environment({"DOCSTORE_ZONES": "z"})


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, "data"),
        ({"data": "d", "colour": "red"}, "colour"),
        ({"data": 5}, "data"),
        ({"data": ["d"]}, "data"),
        ({"data": "d", "zone": True}, "zone"),
        ({"data": "d", "node_id": 7}, "node_id"),
        ({"data": "d", "owner_timeout_s": True}, "owner_timeout_s"),
        ({"data": "d", "slots": 12}, "slots"),
        ({"data": "d", "slots": "many"}, "slots"),
        ({"data": "d", "listen": "x"}, "listen"),
        ({"data": "d", "listen": "127.0.0.1:0"}, "listen"),
        ({"data": "d", "listen": "10.0.0.1:8001"}, "insecure"),
        ({"data": "d", "advertise": "h"}, "advertise"),
        ({"data": "d", "peer_advertise": "h/x:1"}, "peer_advertise"),
        ({"data": "d", "bootstrap": "a"}, "bootstrap"),
        ({"data": "d", "bootstrap": "a=http://h:1,a=http://h:2"}, "bootstrap"),
        ({"data": "d", "node_id": "c", "bootstrap": "a=http://h:1"}, "node_id"),
        ({"data": "d", "node_id": "a b"}, "node_id"),
        ({"data": "d", "bootstrap": "=http://h:1", "node_id": "a"}, "bootstrap"),
        ({"data": "d", "bootstrap": "a/b=http://h:1", "node_id": "a"}, "bootstrap"),
        ({"data": "d", "join": "http://h:1", "replaces": "n!"}, "replaces"),
        ({"data": "d", "replaces": "n"}, "replaces"),
        ({"data": "d", "observer": True}, "observer"),
        ({"data": "d", "listen": "127.0.0.1:65535"}, "peer"),
        ({"data": "d", "listen": "127.0.0.1:65534"}, "gossip"),
        ({"data": "d", "owner_timeout_s": "soon"}, "owner_timeout_s"),
        ({"data": "d", "log_level": "loud"}, "log_level"),
        ({"data": "d", "owner_timeout_s": 0.3}, "owner_timeout_s"),
        ({"data": "d", "gossip_preset": "moon"}, "gossip_preset"),
        ({"data": "d", "replication_factor": 0}, "replication_factor"),
        ({"data": "d", "journal_mb": 15}, "journal_mb"),
        ({"data": "d", "journal_mb": 1025}, "journal_mb"),
        ({"data": "d", "body_bytes_max": -1}, "body_bytes_max"),
        ({"data": "d", "insecure": "perhaps"}, "insecure"),
        ({"data": "d", "allowed_hosts": "db.example:8001"}, "allowed_hosts"),
        ({"data": "d", "allowed_hosts": "http://db.example"}, "allowed_hosts"),
        ({"data": "d", "allowed_origins": "*"}, "allowed_origins"),
        ({"data": "d", "allowed_origins": "https://a.example/"}, "allowed_origins"),
        ({"data": "d", "allowed_origins": "null"}, "allowed_origins"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(settings: dict[str, object], named: str) -> None:
    with pytest.raises(BadConfig) as refused:
        parse(settings)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [{"join": "http://h:1,http://me:s3cret@h:1"}, {"node_id": "a", "bootstrap": "a=http://s3cret@h:1"},
     {"advertise": "me:s3cret@h:1"}],
)  # fmt: skip
def test_a_password_in_an_address_is_refused_and_not_shown(settings: dict[str, str]) -> None:
    with pytest.raises(BadConfig, match=r"\*\*\*@h:1.* no user or password") as refused:
        parse({"data": "d", **settings})
    assert "s3cret" not in str(refused.value)


def test_a_shared_port_is_one_more_address_that_is_bound() -> None:
    given = {"data": "d", "shared": "127.0.0.1:80"}
    assert parse({"data": "d"}).shared is None
    assert parse(given).shared == Address("127.0.0.1", 80)
    assert "db1" in parse({**given, "shared": "db1:80", "insecure": True}).host_names
    with pytest.raises(BadConfig, match="insecure"):
        parse({**given, "shared": "0.0.0.0:80"})
    with pytest.raises(BadConfig, match=r"^shared: "):
        parse({**given, "shared": "80"})


@pytest.mark.parametrize("said", ["\uff15", "\u0665", "1_0", "\u00b2"])
def test_a_number_has_digits_of_ascii_alone(said: str) -> None:
    with pytest.raises(BadConfig, match=r"^slots: .* is not a whole number"):
        settings_of.integer(said, "slots", 1, 100)
    with pytest.raises(BadConfig, match=r"^grace_s: .* is not a number of seconds"):
        settings_of.seconds({"grace_s": said}, "grace_s", 1.0)
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(f"h:{said}")


STRANGE = (
    "", " ", "x" * 480, "x" * 100_000, "\udcff", "\x00", "a\nb", "-1", "nan", "1e400", "9" * 5_000,
    "http://[::1", "http://h:99999", "=http://h:1", ",", "[::1]:8001", "h:65536", "10.0.0.0/99",
    ":a", 10**400, float("nan"), True, [[]], [None], {"a": 1},
)  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_any_kind_and_length_is_taken_or_refused_in_one_short_line(key: str) -> None:
    for value in STRANGE:
        try:
            parse({"data": "d", key: value})
        except BadConfig as error:
            said = str(error)
            assert len(said) < 600
            assert said.isprintable()


@pytest.mark.parametrize("key", ["node_id", "replaces", "join", "bootstrap"])
def test_name_and_group_settings_must_not_be_empty(key: str) -> None:
    """A variable that is not set made a node of a random name, or a group of its own."""
    with pytest.raises(BadConfig, match=f"^{key}: must not be empty: "):
        parse({"data": "d", key: ""})


def test_a_zone_has_at_most_128_bytes() -> None:
    assert parse({"data": "d", "zone": "é" * 64}).zone == "é" * 64
    for zone in ("z" * 480, "é" * 65):
        with pytest.raises(BadConfig, match=r"^zone: .* at most 128 bytes"):
            parse({"data": "d", "zone": zone})
