"""Distribution of tests to workers that run side by side (`pytest -n`).

Tests that share a group of nodes or a Spark session stay with one worker: those of a file, and
those of a few whole folders. All others are given file by file to the next free worker.
"""

from xdist.scheduler import LoadScopeScheduling

PIPELINE = "tests/pipeline/"
FOLDERS = (PIPELINE, "tests/docstore/http/streams/", "tests/docstore/kafka/clients/")
"""Folders that one worker runs: a Spark session costs most when it is new."""
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
"""The longest tests in their order, those that mostly wait first."""


def portion_of(nodeid: str) -> str:
    """Return the name of a portion of tests, which the same worker runs."""
    file = nodeid.split("::", 1)[0]
    folder = next((each for each in FOLDERS if file.startswith(each)), file)
    return file if file in SPARKS else folder


def turn_of(nodeid: str) -> int:
    """Return the place of a test in the order: the smaller, the earlier."""
    named = [each for each in LONGEST if nodeid.startswith(each)]
    return LONGEST.index(max(named, key=len)) if named else len(LONGEST)


class InPortions(LoadScopeScheduling):
    """Distributes one portion after the other, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return portion_of(nodeid)
