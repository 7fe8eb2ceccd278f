"""Which tests a worker gets when several play side by side (`pytest -n`).

What shares a group of nodes or a Spark session stays with one worker: the tests of a file, and
those of a few whole folders. All else is handed out file by file to whoever is free.
"""

from xdist.scheduler import LoadScopeScheduling

PIPELINE = "tests/pipeline/"
FOLDERS = (PIPELINE, "tests/docstore/http/streams/", "tests/docstore/kafka/clients/")
"""Folders that one worker plays: a Spark session costs most when it is new."""
LONGEST = (
    PIPELINE, "tests/docstore/http/streams/", "tests/kafka/", "tests/docstore/client/",
    "tests/docstore/node/", "tests/docstore/node/members/", "tests/docstore/reads/scans/",
    "tests/docstore/test_retention.py", "tests/docstore/http/console/", "tests/test_pasted.py",
    "tests/test_wheel.py", "tests/test_site.py", "tests/test_simulation.py",
    "tests/test_whole_nodes.py",
)  # fmt: skip
"""What takes longest, first what mostly waits, in the order in which it begins."""


def portion_of(nodeid: str) -> str:
    """Return the name of all that is played by the same worker."""
    folder = next((each for each in FOLDERS if nodeid.startswith(each)), None)
    return folder or nodeid.split("::", 1)[0]


def turn_of(nodeid: str) -> int:
    """Return when a test has its turn: the smaller, the earlier."""
    turns = (turn for turn, each in enumerate(LONGEST) if nodeid.startswith(each))
    return next(turns, len(LONGEST))


class InPortions(LoadScopeScheduling):
    """Hands out one portion after the other, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return portion_of(nodeid)
