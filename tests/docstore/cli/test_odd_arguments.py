"""Arguments as they are typed by mistake: one clear line, and nothing else is touched."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from docstore.client import LocalCluster
from tests.docstore.cli.test_commands import docstore


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """Return the address of a node with documents under /notes."""
    with LocalCluster(1) as group:
        [url] = group.urls
        assert docstore("post", "/core/factories", '{"path": "/notes"}', "--url", url)[0] == 0
        yield url


@pytest.mark.parametrize("name", ["a#1", "a?1", "a%62", "ä b"])
def test_a_document_is_explained_whatever_its_name_holds(node: str, name: str) -> None:
    """`a%62` was explained as `ab`, another document."""
    link = f"/notes/{name}"
    assert docstore("put", link, "{}", "--url", node)[0] == 0
    code, out, errors = docstore("explain", link, "--url", node)
    assert (code, errors, json.loads(out)["documentSelfLink"]) == (0, "", link)


@pytest.mark.parametrize(
    "words",
    [
        ["lease", "create", "--ttl", "nan"],
        ["lock", "l", "--ttl", "nan", "--", "true"],
        ["election", "run", "e", "--ttl", "nan", "--", "true"],
        ["put", "/notes/a", "{}", "--if-match", '"1"\n'],
        ["get", "/notes/a", "--url", ","],
        ["trace", "--url", ""],
        ["election", "observe", "e", "--since", ""],
        ["subscription", "create", "/notes", "http://127.0.0.1:1", "--since", ""],
    ],
)
def test_what_is_typed_wrong_is_said_to_be(node: str, words: list[str]) -> None:
    url = [] if "--url" in words else ["--url", node]
    code, out, errors = docstore(*words[:2], *url, *words[2:])
    assert (code, out) == (2, "")
    assert "Invalid value" in errors
    assert "Traceback" not in errors


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    code, out, errors = docstore("get", "/notes/a", "--url", "http://me:s3cret@127.0.0.1:1")
    assert (code, out) == (2, "")
    assert "http://***@127.0.0.1:1" in errors
    assert "s3cret" not in errors


def test_an_entity_tag_needs_no_quotes_in_quotes(node: str) -> None:
    def answer(*words: str) -> tuple[int, str, str]:
        return docstore(words[0], "/notes/tagged", "{}", *words[1:], "--url", node)

    _, out, _ = answer("put")
    for form in ('"{}.{}"', "{}.{}"):
        shown = json.loads(out)
        tag = form.format(shown["documentEpoch"], shown["documentVersion"])
        code, out, errors = answer("patch", "--if-match", tag)
        assert (code, errors) == (0, "")
    for wrong in ("7.7", "*,"):
        code, _, errors = answer("put", "--if-match", wrong)
        assert (code, "If-Match" in errors) == (1, True)


def test_an_id_of_a_lease_is_no_way_to_another_document(node: str) -> None:
    """The factory was deleted."""
    code, out, errors = docstore("lease", "revoke", "../factories/notes", "--now", "--url", node)
    assert (code, out, len(errors.splitlines())) == (1, "", 1)
    assert docstore("get", "/core/factories/notes", "--url", node)[0] == 0


def test_a_factory_that_was_deleted_is_said_to_be(node: str, tmp_path: Path) -> None:
    """A load went on as if it had declared it."""
    rows, url = tmp_path / "rows.json", ["--url", node]
    rows.write_text("[{}]")
    assert docstore("post", "/core/factories", '{"path": "/gone"}', *url)[0] == 0
    assert docstore("delete", "/core/factories/gone", *url)[0] == 0
    code, out, errors = docstore("load", str(rows), "--into", "/gone", *url)
    assert (code, out, len(errors.splitlines())) == (1, "", 1)
    assert "marked deleted" in errors


def test_records_that_cannot_be_written_are_told_in_one_line(node: str) -> None:
    """The readers of the partitions were left running, and said so in a traceback."""
    url = ["--url", node]
    assert docstore("topic", "create", "t", "-p", "3", *url)[0] == 0
    lines = "\n".join(map(str, range(3000)))
    command = [sys.executable, "-m", "docstore"]
    subprocess.run([*command, "produce", "t", *url], input=lines, text=True, check=True, timeout=60)
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*command, "consume", "t", *url], stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)


def test_a_command_that_is_interrupted_at_its_start_says_nothing() -> None:
    """Also within the first tenths of a second, while it imports."""
    begun = "import gc, docstore.__main__ as it; gc.disable = lambda: print(flush=True); it.main()"
    for delay_s in (0, 0.05, 0.1, 0.2, 0.3):
        command = [sys.executable, "-c", begun, "ls", "--url", "http://127.0.0.1:1"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert b"Traceback" not in errors


@pytest.mark.thorough
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
    ],
)
def test_a_command_takes_and_prints_every_character_in_every_locale(
    node: str, locale: dict[str, str]
) -> None:
    def ran(*words: str) -> str:
        command = [sys.executable, "-m", "docstore", *words, "--url", node]
        ended = subprocess.run(
            command, env=os.environ | locale, capture_output=True, check=True, timeout=60
        )
        return ended.stdout.decode()

    link = "/notes/日本 é😀"
    assert json.loads(ran("put", link, '{"t": "😀"}'))["t"] == "😀"
    assert ran("ls", "/notes", "--filter", "t eq '😀'") == link + "\n"
    assert "😀" in ran("history", link)
    assert "└" in ran("topic", "list")


def test_what_is_not_utf_8_is_refused(node: str) -> None:
    code, out, errors = docstore("get", "/notes/\udcff", "--url", node)
    assert (code, out, errors) == (2, "", "docstore: the argument '/notes/\\udcff' is not UTF-8\n")


def test_a_topic_without_members_for_its_replicas_is_not_done(node: str) -> None:
    for more in ((), ("--json",)):
        made = docstore("topic", "create", f"wide{len(more)}", "-r", "7", *more, "--url", node)
        assert made[0] == 1
        assert "was created, but there are too few members for 7 replicas" in made[2]
    assert docstore("topic", "list", "--url", node)[0] == 0
    assert docstore("partition", "list", "--url", node)[0] == 0
