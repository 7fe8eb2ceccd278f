"""The machines behave as the transcripts in docs/ show it."""

import re

import pytest

from tests.transcripts.pinned import FOLDER, PAGE, SCENES, path_of, transcript


@pytest.mark.parametrize("name", SCENES)
def test_a_transcript_matches_its_scene(name: str) -> None:
    """Read the difference, then run `python -m tests.transcripts NAME`."""
    assert transcript(SCENES[name]).splitlines() == path_of(name).read_text("utf-8").splitlines()


def test_page_lists_every_transcript() -> None:
    listed = re.findall(r"transcripts/([a-z-]+)\.txt", PAGE.read_text("utf-8"))
    assert sorted(listed) == sorted(SCENES) == sorted(path.stem for path in FOLDER.iterdir())
