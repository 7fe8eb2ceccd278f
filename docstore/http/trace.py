"""GET /core/management/trace: the last steps of this node."""

from collections.abc import Mapping
from typing import Any

from docstore.errors import BadRequest
from docstore.http import headers
from docstore.http.backend import Backend
from docstore.model.paths import canonical_link
from docstore.model.settings import quoted
from docstore.runtime.trace.lines import TraceFilter
from docstore.streams.replica_set import partition_link
from docstore.streams.topic import check_name

SELECTING = ("slot", "partition", "link")
LIMIT, LIMIT_MAX = 100, 2_048
NUMBER_MAX = 1 << 62


def page(backend: Backend, query: Mapping[str, str]) -> Any:
    """Return the steps that a query asks for. Raises BadRequest, Unavailable."""
    if sum(name in query for name in SELECTING) > 1:
        raise BadRequest("parameters `slot`, `partition` and `link` exclude each other: give one")
    limit = headers.whole_number(query.get("limit", str(LIMIT)), "limit", 1, LIMIT_MAX)
    after = headers.whole_number(query.get("after", "0"), "after", 0, NUMBER_MAX)
    return backend.trace(_about(query, backend.slots()), after=after, limit=limit)


def _about(query: Mapping[str, str], slots: int) -> TraceFilter:
    if "slot" in query:
        slot = headers.whole_number(query["slot"], "slot", 0, max(0, slots - 1))
        return TraceFilter(slot=slot, slots=slots)
    if "link" in query:
        return TraceFilter(link=canonical_link(query["link"]))
    if "partition" in query:
        topic, slash, number = query["partition"].rpartition("/")
        if not slash:
            raise BadRequest(
                f"partition must be <topic>/<number>; got {quoted(query['partition'])}"
            )
        check_name(topic)
        whole = headers.whole_number(number, "partition", 0, NUMBER_MAX)
        return TraceFilter(partition=f"{topic}/{whole}", link=partition_link(topic, whole))
    return TraceFilter()
