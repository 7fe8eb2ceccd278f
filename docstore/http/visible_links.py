"""Remove links that a reader may not see from rows that contain links of other documents.

A lease names the documents attached to it, a queue the leases of its candidates, a dead letter the
document that a job could not write, a job its documents, a group its topics. Queries, feeds and
scans show rows unchanged: on these factories, except queues, they need `read` of everything
(`permissions.py`).
"""

from collections.abc import Callable, Mapping
from functools import partial

from docstore.http.authority import Authority
from docstore.model import json
from docstore.model.document import Row
from docstore.model.service import State
from docstore.services.group_document import GROUPS
from docstore.services.leases import LEASES, TURNS
from docstore.services.registry import DEAD_LETTERS, JOBS
from docstore.streams.replica_set import STREAMS

CORE = "/core/"
Readable = Callable[[str], bool]
OF_JOB = frozenset({"kind", "job", "name", "state", "batch", "status", "errorCode"})
OF_GROUP = frozenset({"format", "state", "generation", "settings"})


def shown_to(authority: Authority, row: Row) -> Row:
    """Return a row without the links that its reader may not see."""
    if not row.link.startswith(CORE):  # Nearly all rows are outside of /core.
        return row
    reduced = REDUCED.get(row.link.rpartition("/")[0])
    if reduced is None or authority.reads_all:
        return row
    state = json.load(row.state)
    shown = reduced(state, partial(authority.may, "GET"))
    return row if shown == state else row._replace(state=json.dump(shown))


def may_see_topics(authority: Authority, topics: Mapping[str, int]) -> bool:
    """Say whether the caller may read all topics of a group; a role has none."""
    return all(authority.may("GET", f"{STREAMS}/{name}") for name in topics if name)


def _lease(state: State, may_read: Readable) -> State:
    return state | {"attached": [each for each in state.get("attached", ()) if may_read(each)]}


def _letter(state: State, may_read: Readable) -> State:
    return state if _is_readable(state.get("link"), may_read) else _part(state, OF_JOB)


def _job(state: State, may_read: Readable) -> State:
    """Show a whole job if its path is readable, and only some members of any other job."""
    return state if _is_readable(state.get("path"), may_read) else _part(state, OF_JOB)


def _group(state: State, may_read: Readable) -> State:
    topics = state.get("topics", {})
    return (
        state if all(may_read(f"{STREAMS}/{each}") for each in topics) else _part(state, OF_GROUP)
    )


def _turns(state: State, may_read: Readable) -> State:
    holder, *queue = (
        each if each is None or may_read(each["lease"]) else each | {"lease": None}
        for each in (state.get("holder"), *state.get("queue", ()))
    )
    shown = state | {"holder": holder, "queue": queue}
    if "past" in state:
        shown["past"] = [
            [name, lease if may_read(lease) else None, number]
            for name, lease, number in state["past"]
        ]
    return shown


def _is_readable(link: object, may_read: Readable) -> bool:
    return isinstance(link, str) and link.startswith("/") and may_read(link)


def _part(state: State, names: frozenset[str]) -> State:
    return {name: value for name, value in state.items() if name in names}


REDUCED: Mapping[str, Callable[[State, Readable], State]] = {
    LEASES: _lease, DEAD_LETTERS: _letter, JOBS: _job, GROUPS: _group,
    **dict.fromkeys(TURNS, _turns),
}  # fmt: skip
"""Path of a factory -> function that removes unreadable links from a document's state."""
