"""All transcripts, where they are kept, and how they are read again."""

from pathlib import Path

from tests.source import ROOT
from tests.transcripts import documents, sessions, streams
from tests.transcripts.stage import SCENES, transcript

__all__ = ["SCENES", "documents", "sessions", "streams", "transcript"]

PAGE = ROOT / "docs/transcripts.md"
FOLDER = ROOT / "docs/transcripts"


def path_of(name: str) -> Path:
    """Return the file of a transcript."""
    return FOLDER / f"{name}.txt"
