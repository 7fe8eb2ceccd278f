"""`docstore certs`: only the owner may read a key, and a certificate names its node."""

import json
import stat
from pathlib import Path

from docstore.runtime.tls.authority import make_authority
from tests.fork_server import SERVER


def certs(*arguments: str) -> tuple[int, str, str]:
    ended = SERVER.run("certs", *arguments)
    return ended.returncode, ended.stdout, ended.stderr


def test_certificates_of_a_ca_and_its_nodes_are_created(tmp_path: Path) -> None:
    where = ("--dir", str(tmp_path / "certs"))
    code, out, errors = certs("make-ca", "--group", "films", *where)
    assert (code, errors) == (0, "")
    hosts = ("--host", "db1.example", "--host", "10.0.0.1", "--host", "[::1]")
    hosts += ("--host", "*.films.example")
    code, out, errors = certs("make-node", "n1", "n2", *hosts, *where, "--json")
    assert (code, errors) == (0, "")
    made = json.loads(out)
    assert made["nodes"] == ["spiffe://cluster/films/node/n1", "spiffe://cluster/films/node/n2"]
    assert made["hosts"] == ["db1.example", "*.films.example", "10.0.0.1", "::1"]
    assert made["file"] == str(tmp_path / "certs" / "n1.pem")
    assert json.loads(certs("show", made["file"], "--json")[1]) == made
    assert f"serial   {made['serial']}" in certs("show", made["file"])[1]
    for path in (tmp_path / "certs").iterdir():
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o600 if path.name.endswith("-key.pem") else 0o644 & mode)
    code, out, _ = certs("make-node", "n1", *where, "--json")
    assert json.loads(out)["serial"] != made["serial"]
    assert json.loads(out)["hosts"] == ["localhost", "127.0.0.1", "::1"]


def test_an_invalid_certs_command_is_one_line(tmp_path: Path) -> None:
    make_authority(tmp_path, "films", 1)
    where = ("--dir", str(tmp_path))
    before = (tmp_path / "ca-key.pem").read_bytes()
    wrong = (
        (("make-ca", *where), "already has a CA, whose key would be lost"),
        (("make-ca", "--group", "a/b", "--dir", str(tmp_path / "x")), "hyphens, _; got 'a/b'"),
        (("make-node", "n1", "--dir", str(tmp_path / "x")), "create it with make-ca"),
        (("make-node", "a b", *where), "must be 1 to 64 letters"),
        (("make-node", "ca", *where), "and not 'ca'"),
        (("make-node", "n1", "--host", "ä.example", *where), "must be an ASCII name"),
        (("make-node", "n1", "--host", "https://db1.example", *where), "without a port"),
        (("make-node", "n1", "--host", "db1.example:8001", *where), "without a port"),
        (("show", str(tmp_path / "ca-key.pem")), "has no certificate"),
        (("show", str(tmp_path / "none.pem")), "No such file"),
    )
    for arguments, error in wrong:
        code, out, errors = certs(*arguments)
        assert (code, out, len(errors.splitlines())) == (1, "", 1), arguments
        assert error in errors
    assert (tmp_path / "ca-key.pem").read_bytes() == before
