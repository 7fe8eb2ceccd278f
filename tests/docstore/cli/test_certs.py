"""`docstore certs`: what is made may be read by its owner alone, and says whose it is."""

import json
import stat
from pathlib import Path

from docstore.runtime.tls.authority import make_authority
from tests.fork_server import SERVER


def certs(*arguments: str) -> tuple[int, str, str]:
    ended = SERVER.run("certs", *arguments)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_ca_and_a_node_of_it(tmp_path: Path) -> None:
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


def test_what_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    make_authority(tmp_path, "films", 1)
    where = ("--dir", str(tmp_path))
    before = (tmp_path / "ca-key.pem").read_bytes()
    wrong = (
        (("make-ca", *where), "has a CA, whose key would be lost"),
        (("make-ca", "--group", "a/b", "--dir", str(tmp_path / "x")), "group: 'a/b'"),
        (("make-node", "n1", "--dir", str(tmp_path / "x")), "make-ca makes it"),
        (("make-node", "a b", *where), "is no id of a node"),
        (("make-node", "ca", *where), "is no id of a node"),
        (("make-node", "n1", "--host", "ä.example", *where), "no name in ASCII"),
        (("make-node", "n1", "--host", "https://db1.example", *where), "it has no port"),
        (("make-node", "n1", "--host", "db1.example:8001", *where), "it has no port"),
        (("show", str(tmp_path / "ca-key.pem")), "holds no certificate"),
        (("show", str(tmp_path / "none.pem")), "No such file"),
    )
    for arguments, told in wrong:
        code, out, errors = certs(*arguments)
        assert (code, out, len(errors.splitlines())) == (1, "", 1), arguments
        assert told in errors
    assert (tmp_path / "ca-key.pem").read_bytes() == before
