"""Which tests a worker gets when several play side by side (`pytest -n`).

What shares a group of nodes or a Spark session stays with one worker: the tests of a file, and
those of a few whole folders. All else is handed out file by file to whoever is free.
"""

from xdist.scheduler import LoadScopeScheduling

PIPELINE = "tests/pipeline/"
FOLDERS = (PIPELINE, "tests/docstore/http/streams/", "tests/docstore/kafka/clients/")
"""Folders that one worker plays: a Spark session costs most when it is new."""
SPARKS = tuple(
    f"{PIPELINE}test_{name}.py"
    for name in (
        "declarative", "own_processes", "standalone", "notebook", "connect", "film_genres",
        "py_files",
    )
)  # fmt: skip
"""Files of the pipeline whose tests start processes with Sparks of their own."""
LONGEST = (
    PIPELINE, "tests/docstore/http/streams/", "tests/kafka/", SPARKS[0], "tests/docstore/client/",
    SPARKS[1], "tests/docstore/node/", "tests/docstore/node/members/", SPARKS[2],
    "tests/docstore/kafka/clients/", "tests/docstore/reads/scans/", *SPARKS[3:],
    "tests/docstore/test_retention.py", "tests/docstore/http/console/", "tests/test_pasted.py",
    "tests/docstore/maintenance/backup/", "tests/docstore/storage/",
    "tests/test_wheel.py", "tests/test_site.py", "tests/test_simulation.py",
    "tests/test_whole_nodes.py",
)  # fmt: skip
"""What takes longest, first what mostly waits, in the order in which it begins."""


def portion_of(nodeid: str) -> str:
    """Return the name of all that is played by the same worker."""
    file = nodeid.split("::", 1)[0]
    folder = next((each for each in FOLDERS if file.startswith(each)), file)
    return file if file in SPARKS else folder


def turn_of(nodeid: str) -> int:
    """Return when a test has its turn: the smaller, the earlier."""
    named = [each for each in LONGEST if nodeid.startswith(each)]
    return LONGEST.index(max(named, key=len)) if named else len(LONGEST)


class InPortions(LoadScopeScheduling):
    """Hands out one portion after the other, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return portion_of(nodeid)
