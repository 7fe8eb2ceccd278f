"""A node opens the directory of an earlier version, and gives the same answers."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from docstore.client.local import LocalCluster
from tests.compat.stores import EXPECTED, SETTINGS, Asker, answers, files


def without_words(answered: dict[str, Any]) -> dict[str, Any]:
    """Return the answers without the words of problems, which may change."""
    for answer in answered.values():
        if answer["status"] >= 400:
            answer["page"] = {**answer["page"], "detail": "", "message": ""}
    return answered


@pytest.mark.parametrize("file", files(), ids=lambda file: file.name.partition(".")[0])
def test_a_directory_of_an_earlier_version_gives_the_same_answers(
    file: Path, tmp_path: Path
) -> None:
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / EXPECTED).read_text())
    with LocalCluster(1, tmp_path, SETTINGS) as cluster:
        asker = Asker(cluster.urls[0])
        assert without_words(answers(asker, list(expected))) == without_words(expected)
        # And it goes on from there: a version more, and the fence is remembered.
        again = asker.ask("PUT", "/strong/1", {"guarded": True}, Fence="locks/a:6")
        assert again["status"] == 409
        assert again["page"]["errorCode"] == "fenced"
        assert asker.ask("PUT", "/strong/1", {"n": 1}, Fence="locks/a:8")["status"] == 200
        records = "/core/streams/flights/partitions/0/records"
        assert asker.ask("POST", records, {"value": 1})["page"]["base"] == 6


def test_there_is_a_directory_to_open() -> None:
    assert files()
