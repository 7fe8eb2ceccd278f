"""`serve --reload` and `--development`: a service whose file is edited while its node runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from tests.docstore.watching import page_of, until

MODULE = """
from docstore.service import Service
from reloaded_words import WORD

class Notes(Service):
    path = "/notes"
    methods = ("POST", "PATCH")

    def on_create(self, body, request):
        return {"word": WORD}

    def on_patch(self, state, body, request):
        return state | {"left": 10 // body["by"]}
"""


async def refused(client: Client, body: Any) -> str:
    with pytest.raises(RequestFailed) as failed:
        await client.patch("/notes/a", body)
    assert (failed.value.status, failed.value.code) == (500, "internal")
    return str(failed.value)


async def word(client: Client) -> str:
    return str((await client.post("/notes", {})).value["word"])


async def test_a_changed_file_is_used_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, words = tmp_path / "reloaded_notes.py", tmp_path / "reloaded_words.py"
    module.write_text(MODULE)
    words.write_text("WORD = 'one'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    flags = ("--service", "reloaded_notes:Notes", "--slots", "4")
    with LocalCluster(1, tmp_path / "group", (*flags, "--reload", "--development")) as cluster:
        log = cluster.nodes[0].data / "log.txt"
        async with Client(cluster.urls) as client:
            await client.post("/notes", {"documentSelfLink": "a"})
            assert "ZeroDivisionError" in await refused(client, {"by": 0})
            words.write_text("WORD = 'two'\n")  # The same size, and perhaps second.
            async with asyncio.timeout(10):
                while await word(client) != "two":
                    await asyncio.sleep(0.05)
            words.write_text("WORD = nothing\n")
            until(lambda: "services are not reloaded" in log.read_text())
            assert "NameError" in log.read_text()
            assert await word(client) == "two"
            words.write_text("WORD = 'three'\n")
            module.write_text(MODULE.replace('("POST", "PATCH")', '("POST",)\n    revision = 2'))
            async with asyncio.timeout(10):
                while not await is_405(client):
                    await asyncio.sleep(0.05)
            assert await word(client) == "three"
    assert page_of(f"{cluster.nodes[0].url}/core/management") == {}, "it has ended"


async def is_405(client: Client) -> bool:
    try:
        await client.patch("/notes/a", {"by": 1})
    except RequestFailed as error:
        return error.status == 405
    return False


async def test_without_the_flag_no_traceback_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reloaded_notes.py").write_text(MODULE)
    (tmp_path / "reloaded_words.py").write_text("WORD = 'one'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    flags = ("--service", "reloaded_notes:Notes", "--slots", "4")
    with LocalCluster(1, tmp_path / "group", flags) as cluster:
        async with Client(cluster.urls) as client:
            await client.post("/notes", {"documentSelfLink": "a"})
            assert "ZeroDivisionError" not in await refused(client, {"by": 0})
