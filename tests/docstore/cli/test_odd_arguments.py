"""Mistakes in arguments: each is one clear line, without another effect."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docstore.cli.app import app
from docstore.client import LocalCluster
from tests.docstore.cli.test_commands import docstore
from tests.fork_server import SERVER


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """Return the address of a node with documents under /notes."""
    with LocalCluster(1) as group:
        [url] = group.urls
        assert docstore("post", "/core/factories", '{"path": "/notes"}', "--url", url)[0] == 0
        yield url


@pytest.mark.parametrize("name", ["a#1", "a?1", "a%62", "ä b"])
def test_a_document_with_any_name_is_explained(node: str, name: str) -> None:
    """Once, `a%62` was explained as `ab`, another document."""
    link = f"/notes/{name}"
    assert docstore("put", link, "{}", "--url", node)[0] == 0
    code, out, errors = docstore("explain", link, "--url", node)
    assert (code, errors, json.loads(out)["documentSelfLink"]) == (0, "", link)


@pytest.mark.parametrize(
    ("typed", "code", "hint"),
    [
        ("gte /notes/a", 2, "Did you mean 'get'? see docstore --help"),
        ("topic crate t", 2, "Did you mean 'create', 'alter'? see docstore topic --help"),
        ("get", 2, "missing argument 'link'; for example: docstore get /films/1"),
        ("topic create", 2, "for example: docstore topic create clicks"),
        ("load rows.json", 2, "missing option '--into'; for example: docstore load films.csv"),
        ("get /notes/a extra", 2, "(extra); docstore get takes: [OPTIONS]"),
        ("get /notes/a --verion 1", 2, "no option --verion; did you mean --version?"),
        ("get /notes/a --version x", 2, "invalid value for '--version': 'x' is not"),
        ("ls /notes --limit 0", 2, "0 is not in the range x>=1"),
        ("lease create --ttl nan", 2, "must be a number of seconds; got nan"),
        ("lease create --ttl 0", 2, "0.0 is not in the range"),
        ("lock l --ttl nan -- true", 2, "must be a number of seconds; got nan"),
        ("election run e --ttl nan -- true", 2, "must be a number of seconds; got nan"),
        ("put /notes/a {} --if-match '1\n'", 2, "not printable"),
        ("put /notes/a {} --if-match ''", 2, "must be an entity tag, such as 3.7; got ''"),
        ("put /notes/a {} --if-match 9.9", 1, "412 If-Match does not hold; the document is anot"),
        ("put /notes/a {n:1}", 2, "the document is not JSON"),
        ("put /notes/a [1]", 2, "must be a JSON object, such as {}; got list"),
        ("get /notes/a --url ,", 2, "must be the URL of a node, such as http://127.0.0.1:8001"),
        ("trace --url ''", 2, "must be the URL of a node, such as http://127.0.0.1:8001"),
        ("get /notes/a --url 127.0.0.1", 1, "must be such as http://127.0.0.1:8001"),
        ("get /notes/a --url http://127.0.0.1:1", 1, "--url or DOCSTORE_URL, or try `docstore de"),
        ("get /notes/a --cacert none.pem", 2, "none.pem: no such file; give a file with cert"),
        ("election observe e --since ''", 2, "--since must be the `resume` of a line"),
        ("subscription create /notes http://127.0.0.1:1 --since ''", 2, "--since must be a pos"),
        ("topic create t --retention 7x", 2, "a unit, such as 7d, 12h or 30m; got 7x"),
        ("consume t --group g -p 0", 2, "leave out --partition"),
        ("get notes/a", 1, "a link must begin with /; got 'notes/a'"),
        ("get /nobody/x", 1, "docstore post /core/factories '{\"path\": \"/nobody\"}'"),
        ("explain /nobody/x", 1, "docstore post /core/factories '{\"path\": \"/nobody\"}'"),
        ("get /notes/zz", 1, "404 there is nothing at /notes/zz; `docstore ls /notes` lists"),
        ("get /notes/a --version 99", 1, "`docstore history /notes/a` lists its versions"),
        ("get /notes/a --at yesterday", 1, "an RFC 3339 time, or microseconds since 1970; got"),
        ("put /notes {}", 1, "name a document, such as /films/1"),
        ("post /notes/a {}", 1, "post to a factory, such as /films"),
        ("ls /notes/a", 1, "give a factory; `docstore get` shows one document"),
        ("ls /notes --filter 'n >> 2'", 1, "'>' at 3, where a string in single quotes"),
        ("load none.json --into /notes", 1, "none.json: No such file or directory"),
        ("produce nothere", 1, "create it with `docstore topic create nothere`"),
        ("group describe g", 1, "`docstore group list` lists those that exist"),
        ("lease revoke l", 1, "`docstore lease list` lists those that exist"),
        ("log-level loud", 1, "one of debug, info, warning, error; got 'loud'"),
        ("remove n9", 1, "n9 is not a member"),
        ("lock a/b -- true", 1, "name must be one path segment, without /; got 'a/b'"),
        ("lock l -- no-such-program", 127, "no-such-program: No such file or directory"),
        ("lock busy", 2, "for example: docstore lock run billing -- ./nightly-invoices"),
        ("lock l --try --timeout 1 -- true", 2, "--try excludes --timeout"),
        ("lock list -- true", 2, "docstore lock run list -- COMMAND"),
        ("lock break l2", 1, "`docstore lock list` lists those that exist"),
        ("election transfer e x", 1, "`docstore election list` lists those that exist"),
        ("group create g nothere", 1, "create it with `docstore topic create nothere`"),
        ("role create r --mode both", 1, "must be one of exclusive, nonExclusive; got 'both'"),
        ("access check ann GET /a", 1, "no such user, or no access file, or your token"),
        ("access check ann", 2, "give USER METHOD PATH, or --file FILE, or both; got ann"),
        ("access check --file none.toml", 1, "none.toml: No such file or directory"),
        ("serve --lisen 127.0.0.1:1", 2, "did you mean --listen? see docstore serve --help"),
        ("serve --data d --slots 3", 2, "slots: must be a power of two, such as 1024; got 3"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_a_hint(node: str, typed: str, code: int, hint: str) -> None:
    """The mistakes are typical of new users."""
    before, apart, behind = typed.partition(" -- ")
    words = shlex.split(before)
    url = [] if "--url" in words else ["--url", node]
    command = [*words, *url, *apart.split(), *behind.split()]
    if words[0] == "serve":
        found, out, errors = docstore(*words)
    else:  # Run in this process, which is faster.
        ended = CliRunner().invoke(app, command, prog_name="docstore", catch_exceptions=False)
        found, out, errors = ended.exit_code, ended.stdout, ended.stderr
    assert (found, out, errors.count("\n")) == (code, "", 1), errors
    assert hint in errors
    assert errors.startswith("docstore: ")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("DOCSTORE_LOG_LEVL", "DOCSTORE_LOG_LEVEL"), ("DOCSTORE_DATE", "DOCSTORE_DATA")],
)
def test_a_misspelt_setting_gets_the_nearest_as_a_hint(name: str, meant: str) -> None:
    ended = SERVER.run("serve", "--data", "d", environment={**os.environ, name: "x"})
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"docstore: {name}: unknown setting; did you mean {meant}? docstore serve --help lists"
        " them\n"
    )


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    code, out, errors = docstore("get", "/notes/a", "--url", "http://me:s3cret@127.0.0.1:1")
    assert (code, out) == (2, "")
    assert "http://***@127.0.0.1:1" in errors
    assert "s3cret" not in errors


def test_an_entity_tag_needs_no_quotes(node: str) -> None:
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


def test_an_id_of_a_lease_cannot_reach_another_document(node: str) -> None:
    """Once, the command deleted the factory."""
    code, out, errors = docstore("lease", "revoke", "../factories/notes", "--now", "--url", node)
    assert (code, out, len(errors.splitlines())) == (1, "", 1)
    assert docstore("get", "/core/factories/notes", "--url", node)[0] == 0


def test_a_load_into_a_deleted_factory_is_an_error(node: str, tmp_path: Path) -> None:
    """Once, a load continued as if it had declared the factory."""
    rows, url = tmp_path / "rows.json", ["--url", node]
    rows.write_text("[{}]")
    assert docstore("post", "/core/factories", '{"path": "/gone"}', *url)[0] == 0
    assert docstore("delete", "/core/factories/gone", *url)[0] == 0
    code, out, errors = docstore("load", str(rows), "--into", "/gone", *url)
    assert (code, out, len(errors.splitlines())) == (1, "", 1)
    assert "marked deleted" in errors


def test_unwritable_records_are_a_one_line_error(node: str) -> None:
    """Once, the readers of the partitions were left running, with a traceback."""
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


def test_a_command_interrupted_at_its_start_prints_no_traceback() -> None:
    """The signals arrive in the first tenths of a second, during imports."""
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
def test_a_command_reads_and_prints_unicode_in_each_locale(
    node: str, locale: dict[str, str]
) -> None:
    def ran(*words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "docstore", *words, "--url", node]
        ended = subprocess.run(
            command, env=os.environ | locale, capture_output=True, check=False, timeout=60
        )
        assert ended.returncode == code, ended.stderr
        return (ended.stderr if code else ended.stdout).decode()

    link = "/notes/日本 é😀"
    assert json.loads(ran("put", link, '{"t": "😀"}'))["t"] == "😀"
    assert ran("ls", "/notes", "--filter", "t eq '😀'") == link + "\n"
    assert "😀" in ran("history", link)
    mistake = ran("get", "/日本/é", code=1)
    assert mistake.startswith("docstore: 404 there is no factory at /日本; declare it with: ")
    assert mistake.count("\n") == 1
    ran("topic", "create", f"t😀{len(locale)}")
    assert "└" in ran("topic", "list")


def test_an_argument_that_is_not_utf_8_is_refused(node: str) -> None:
    code, out, errors = docstore("get", "/notes/\udcff", "--url", node)
    assert (code, out, errors) == (2, "", "docstore: the argument '/notes/\\udcff' is not UTF-8\n")


def test_a_topic_with_too_few_members_for_its_replicas_is_an_error(node: str) -> None:
    for more in ((), ("--json",)):
        made = docstore("topic", "create", f"wide{len(more)}", "-r", "7", *more, "--url", node)
        assert made[0] == 1
        assert "was created, but there are too few members for 7 replicas" in made[2]
    assert docstore("topic", "list", "--url", node)[0] == 0
    assert docstore("partition", "list", "--url", node)[0] == 0


@pytest.mark.thorough
def test_access_check_answers_from_a_file_or_from_the_nodes(tmp_path: Path) -> None:
    secret = "a-token-of-root"
    file = tmp_path / "access.toml"
    file.write_text(
        '[roles.editor]\n"/films" = "write"\n[roles.all]\n"/" = "admin"\n'
        f'[users.ann]\ntokens = ["{sha256(b"ann").hexdigest()}"]\nroles = ["editor"]\n'
        f'[users.root]\ntokens = ["{sha256(secret.encode()).hexdigest()}"]\nroles = ["all"]\n'
    )
    assert docstore("access", "check", "--file", str(file))[:2] == (
        0, "ann: write /films\nroot: admin /\n",
    )  # fmt: skip
    asked = (
        ("PUT /films/1", 0, "yes: it needs write at /films/1; ann has write at /films\n"),
        ("PATCH /films/config", 1, "no: it needs admin at /films; ann has write at /films\n"),
        ("GET /films2/1", 1, "no: it needs read at /films2/1; ann has nothing there\n"),
        ("GET /health/live", 0, "yes: GET /health/live needs no grant\n"),
    )
    (tmp_path / "token").write_text(secret)
    with LocalCluster(1, tmp_path / "nodes", ("--access-file", str(file))) as group:
        by_nodes = ["--url", group.urls[0]]
        for request, code, said in asked:
            words = ["access", "check", "ann", *request.split()]
            assert docstore(*words, "--file", str(file)) == (code, said, "")
            token = ["--token-file", str(tmp_path / "token")]
            assert docstore(*token, *words, *by_nodes) == (code, said, "")
