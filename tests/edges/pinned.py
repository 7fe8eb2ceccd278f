"""The texts that are pinned, each by the name of its golden file; `python -m tests.edges`."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docstore.http.openapi.document import described
from docstore.services.registry import Registry
from tests.edges.codes import codes
from tests.edges.commands import helps
from tests.edges.kinds import kinds
from tests.edges.measures import metrics
from tests.edges.settings import settings

GOLDEN = Path(__file__).parent / "golden"
TRACES = Path(__file__).parent / "traces.json"
Traces = Mapping[str, Mapping[str, str]]
"""World -> seed -> the hash of its trace."""
DEPTH = 5
"""The depth of the description of HTTP at which a response is a line."""


def openapi() -> str:
    """Return the description that a node serves which knows no factories of users."""
    page = described(Registry().services(), lambda path: True)
    page["info"].pop("version")
    return _indented(page, DEPTH) + "\n"


def _indented(value: Any, depth: int, before: str = "\n") -> str:
    """Return JSON with a line for each member of the outer objects."""
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value, sort_keys=True)
    inner = before + " "
    members = [
        f"{json.dumps(key)}: {_indented(value[key], depth - 1, inner)}" for key in sorted(value)
    ]
    return f"{{{inner}{f',{inner}'.join(members)}{before}}}"


TEXTS: Mapping[str, Callable[[], str]] = {
    "codes.txt": codes,
    "help.txt": helps,
    "metrics.txt": metrics,
    "openapi.json": openapi,
    "settings.txt": settings,
    "trace_kinds.txt": kinds,
}


def write_traces(file: Path, traces: Traces) -> None:
    """Write hashes, one a line."""
    file.write_text(_indented(traces, DEPTH) + "\n", "utf-8")
