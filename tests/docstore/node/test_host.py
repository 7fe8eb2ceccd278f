"""The members of a node's page about its machine."""

import time
from pathlib import Path
from typing import Any

from docstore.config import parse
from docstore.node.host import host_page


def page(data: Path, **settings: Any) -> dict[str, Any]:
    return host_page(parse({"data": str(data), **settings}))


def test_a_node_on_loopback_shows_its_disk_and_no_warnings(tmp_path: Path) -> None:
    before_us = time.time_ns() // 1000
    found = page(tmp_path)
    assert before_us <= found.pop("timeMicros") <= time.time_ns() // 1000
    disk = found.pop("disk")
    assert 0 < disk["freeBytes"] < disk["totalBytes"]
    assert found == {"plainText": [], "openSecrets": []}


def test_a_disk_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    assert "disk" not in page(tmp_path / "gone")


def test_ports_where_others_meet_plain_text_are_named(tmp_path: Path) -> None:
    beyond = {"listen": "10.0.0.1:8001", "insecure": True}
    assert page(tmp_path, **beyond)["plainText"] == ["listen", "peer", "gossip"]
    shared = beyond | {"shared": "10.0.0.1:8000", "gossip_key_file": "keys"}
    assert page(tmp_path, **shared)["plainText"] == ["listen", "peer", "shared"]


def test_files_that_others_may_read_are_named_by_their_settings(tmp_path: Path) -> None:
    token, key, seal = (tmp_path / name for name in ("token", "n1-key.pem", "callback.keys"))
    for file in (token, key, seal):
        file.touch(mode=0o644)
    settings = {
        "token_file": str(token), "tls_cert_file": str(tmp_path / "n1.pem"),
        "tls_key_file": str(key), "tls_ca_file": str(tmp_path / "ca.pem"),
        "gossip_key_file": str(tmp_path / "gone"), "callback_key_file": str(seal),
        "callback_hosts": "https://*.example",
    }  # fmt: skip
    assert page(tmp_path, **settings)["openSecrets"] == [
        "token_file", "callback_key_file", "tls_key_file",
    ]  # fmt: skip
    seal.chmod(0o600)
    key.chmod(0o600)
    assert page(tmp_path, **settings)["openSecrets"] == ["token_file"]
