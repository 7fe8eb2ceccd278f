"""An access file that changes while a node uses it: the changes that apply, and the others."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from docstore.cli.app import app
from docstore.model.tokens import token_in
from docstore.node.access_file import AccessFile
from docstore.runtime.audit import AUDIT
from tests.docstore.access.tokens import digest

READER = '[roles.reader]\n"/" = "read"\n'
ADMIN = '[roles.admin]\n"/" = "admin"\n'


def user(name: str, role: str) -> str:
    return f'[users.{name}]\ntokens = ["{digest(name)}"]\nroles = ["{role}"]\n'


FILE = READER + ADMIN + user("ann", "reader") + user("eve", "admin")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def watched(path: Path) -> AccessFile:
    return AccessFile(path)


def names(watched: AccessFile) -> set[str]:
    """Return the names of the users that may enter."""
    found = (watched.authenticator.principal(f"Bearer {name}", 0) for name in ("ann", "eve", "bob"))
    return {each.name for each in found if each is not None}


def looked_twice(watched: AccessFile) -> None:
    watched.look()
    watched.look()


def test_a_changed_file_is_applied(path: Path, watched: AccessFile) -> None:
    path.write_text(FILE + user("bob", "reader"))
    looked_twice(watched)
    assert names(watched) == {"ann", "eve", "bob"}


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda path: path.write_text(""), "a user or a key"),
        (lambda path: path.write_text(READER + ADMIN), "a user or a key"),
        (lambda path: path.write_text(READER + user("ann", "reader")), "an administrator"),
        (lambda path: path.write_text(FILE[:-20]), "must be TOML"),
        (lambda path: path.unlink(), "No such file"),
    ],
)
def test_an_unusable_file_is_refused_and_logged(
    path: Path, watched: AccessFile, write: Callable[[Path], None], why: str
) -> None:
    write(path)
    with capture_logs() as logged:
        looked_twice(watched)
        looked_twice(watched)
    assert names(watched) == {"ann", "eve"}
    assert watched.authenticator.is_outdated
    [line] = logged
    assert why in line["why"]
    path.write_text(FILE + user("bob", "reader"))
    looked_twice(watched)
    assert names(watched) == {"ann", "eve", "bob"}
    assert not watched.authenticator.is_outdated


def test_a_file_without_an_administrator_may_replace_another_one(path: Path) -> None:
    path.write_text(READER + user("ann", "reader"))
    watched = AccessFile(path)
    path.write_text(READER + user("bob", "reader"))
    looked_twice(watched)
    assert names(watched) == {"bob"}


def test_a_file_that_is_still_being_written_is_not_read(path: Path, watched: AccessFile) -> None:
    path.write_text(READER + ADMIN + user("eve", "admin"))  # A file that `cp` still writes.
    watched.look()
    assert names(watched) == {"ann", "eve"}
    path.write_text(FILE + user("bob", "reader"))
    watched.look()
    assert names(watched) == {"ann", "eve"}
    watched.look()
    assert names(watched) == {"ann", "eve", "bob"}


def test_a_token_file_that_is_briefly_empty_keeps_its_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    token = token_in(str(path))
    assert not isinstance(token, str)
    assert token() == "one"
    for content in ("", "two words"):
        path.write_text(content)
        assert token() == "one"
    path.write_text("two")
    assert token() == "two"
    path.write_text("")
    fresh = token_in(str(path))
    assert not isinstance(fresh, str)
    with pytest.raises(ValueError, match="the file is empty"):
        fresh()


@pytest.mark.parametrize(
    ("text", "code", "output"),
    [
        (FILE, 0, "ann: read /"),
        ("", 1, "must have a user"),
        (READER + user("ann", "reader"), 1, "admin"),
        (FILE + "[users.bob]\n", 1, "users.bob: roles"),
    ],
)
def test_a_file_is_checked_by_a_command(path: Path, text: str, code: int, output: str) -> None:
    path.write_text(text)
    result = CliRunner().invoke(app, ["access", "check", "--file", str(path)])
    assert (result.exit_code, output in result.output) == (code, True)
    if code == 0:
        page = json.loads(
            CliRunner().invoke(app, ["access", "check", "--file", str(path), "--json"]).stdout
        )
        assert page == {
            "users": {"ann": {"/": "read"}, "eve": {"/": "admin"}},
            "keys": [], "administrators": ["eve"],
        }  # fmt: skip


def test_the_audit_log_names_changed_users_and_roles(
    path: Path, watched: AccessFile, tmp_path: Path
) -> None:
    AUDIT.use(str(tmp_path / "audit.log"), "")
    changed = FILE.replace(digest("ann"), digest("new")).replace(READER, "[roles.reader]\n")
    path.write_text(changed + user("bob", "reader"))
    looked_twice(watched)
    path.write_text("nonsense")
    looked_twice(watched)
    AUDIT.use("", "")
    read, refused = map(json.loads, (tmp_path / "audit.log").read_text().splitlines())
    assert (read["event"], read["users_added"], read["users_changed"]) == (
        "access file read", ["bob"], ["ann"]
    )  # fmt: skip
    assert (read["roles_changed"], "users_removed" in read) == (["reader"], False)
    assert refused["event"] == "access file refused"
    assert digest("new") not in json.dumps(read)
