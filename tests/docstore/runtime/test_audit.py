"""The file of the audit log: append-only, reopened after a rotation, never blocking."""

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from docstore.errors import BadConfig
from docstore.runtime.audit import AuditLog


def test_lines_go_to_the_file_with_the_configured_name(tmp_path: Path) -> None:
    file, rotated = tmp_path / "audit.log", tmp_path / "audit.log.1"
    audit, other = AuditLog(), AuditLog()
    audit.use(str(file), "n1")
    other.use(str(file), "n2")
    audit.note("a", user="ann")
    other.note("b")
    file.rename(rotated)
    audit.note("c", user="")
    assert [json.loads(line)["event"] for line in rotated.read_text().splitlines()] == ["a", "b"]
    [line] = map(json.loads, file.read_text().splitlines())
    assert (line["event"], line["node"], "user" in line) == ("c", "n1", False)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_line_that_cannot_be_written_is_counted() -> None:
    audit = AuditLog()
    audit.use("/dev/full", "n1")
    with capture_logs() as logs:
        audit.note("a", user="ann")
    assert audit.lines_lost == 1
    assert [(each["event"], each["line"]["user"]) for each in logs] == [
        ("a line of the audit log is lost", "ann")
    ]


def test_a_start_fails_when_the_file_cannot_be_opened() -> None:
    with pytest.raises(BadConfig, match=r"audit_file: /nowhere/audit\.log: No such file"):
        AuditLog().use("/nowhere/audit.log", "n1")
