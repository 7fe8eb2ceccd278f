"""Elections and locks: documents with a holder and a queue. One service, two paths.

The transitions are in `ownership/by_store.py`; this module has the formats of documents and
requests. Clients write by requests (PATCH) only; `http/elections.py` answers these.
"""

from collections.abc import Mapping
from typing import Any

from docstore.errors import BadRequest
from docstore.model import json
from docstore.model.fields import Fields
from docstore.model.operation import Operation
from docstore.model.paths import canonical_link
from docstore.model.service import Malformed, ServiceOptions, State
from docstore.model.settings import quoted
from docstore.ownership import by_store
from docstore.ownership.by_store import QUEUE_MAX, Candidate, Past, Turns, Vacant
from docstore.services.leases import LEASES, TURNS, lease_link

ELECTIONS, LOCKS = TURNS
CAMPAIGNS: Mapping[str, str] = {ELECTIONS: "CampaignRequest", LOCKS: "AcquireRequest"}
RESIGNS: Mapping[str, str] = {ELECTIONS: "ResignRequest", LOCKS: "ReleaseRequest"}
MACHINES = frozenset({"GoneRequest", "PromoteRequest"})
"""Kinds of requests that only the machine of leases sends, when a lease ends."""
NAME_BYTES_MAX = 200
VALUE_BYTES_MAX = 4_096
GRACE_MS_MAX = 3_600_000
ENTRY = frozenset({"candidate", "lease", "value"})
NUMBERED_ENTRY = ENTRY | {"number"}
"""JSON members of a holder or candidate, with the `number` of one that counts its requests."""
VACANT: Mapping[str, Vacant] = {str(each): each for each in Vacant}
TOKEN_MAX = NUMBER_MAX = 1 << 62


def turns_of(state: State) -> Turns:
    """Return the queue in a document's state. Raises Refusal (400) if it is not one."""
    fields = Fields(state)
    fields.value("documentVersion")
    vacant = VACANT.get(fields.text("vacant", default=""))
    if vacant is None:
        raise Malformed(
            f'`vacant` must be "", "resigned" or "expired"; got {quoted(state.get("vacant"))}'
        )
    holder, queue = fields.value("holder"), fields.value("queue", default=[])
    past = fields.value("past", default=[])
    if not isinstance(queue, list) or len(queue) > QUEUE_MAX:
        raise Malformed(f"`queue` must be an array of at most {QUEUE_MAX} entries")
    if not isinstance(past, list) or not all(map(_is_past, past)):
        raise Malformed("`past` must be an array of [candidate, lease, number]")
    found = Turns(
        holder=None if holder is None else _entry(holder),
        token=fields.whole("token", 0, TOKEN_MAX, default=0),
        queue=tuple(_entry(each) for each in queue),
        grace_ms=fields.whole("graceMs", 0, GRACE_MS_MAX, default=0),
        vacant=vacant,
        past=tuple(Past(*each) for each in past),
    )
    fields.end()
    return found


def state_of(turns: Turns) -> State:
    past = {"past": [list(each) for each in turns.past]} if turns.past else {}
    return {
        "holder": None if turns.holder is None else _shown(turns.holder),
        "token": turns.token,
        "queue": [_shown(each) for each in turns.queue],
        "graceMs": turns.grace_ms,
        "vacant": str(turns.vacant),
        **past,
    }


def _shown(candidate: Candidate) -> State:
    name, lease, value, number = candidate
    shown: State = {"candidate": name, "lease": lease, "value": value}
    return shown | {"number": number} if number else shown


def _entry(value: Any) -> Candidate:
    """Return a holder or candidate of a document; its values were checked on arrival."""
    if isinstance(value, dict) and ENTRY <= value.keys() <= NUMBERED_ENTRY:
        name, lease, number = value["candidate"], value["lease"], value.get("number", 0)
        if isinstance(name, str) and isinstance(lease, str) and isinstance(number, int):
            return Candidate(name, lease, value["value"], number)
    raise Malformed(
        "`holder` and each entry of `queue` must be {candidate, "
        f"lease, value}}; got {quoted(value)}"
    )


def _is_past(value: Any) -> bool:
    return isinstance(value, list) and [type(each) for each in value] == [str, str, int]


def candidate_of(fields: Fields, value: Any = None) -> Candidate:
    """Take a candidate out of a request or a document. Raises Refusal (400)."""
    name, lease = name_of(fields, "candidate"), lease_link(fields.text("lease"))
    try:
        canonical_link(lease)
    except BadRequest as error:
        raise Malformed(f"lease: {error}") from None
    if lease.rpartition("/")[0] != LEASES:
        raise Malformed(f"`lease` must be the link of a lease, {LEASES}/<id>; got {quoted(lease)}")
    check_value(value)
    return Candidate(name, lease, value, number_of(fields))


def number_of(fields: Fields) -> int:
    """Take the number of a request, 0 for none. Raises Refusal (400)."""
    return fields.whole("number", 0, NUMBER_MAX, default=0)


def check_value(value: Any) -> None:
    """Raise Refusal (400) unless a candidate may have this value."""
    if len(json.dump(value)) > VALUE_BYTES_MAX:
        raise Malformed(f"`value` must have at most {VALUE_BYTES_MAX} bytes as JSON")


def name_of(fields: Fields, member: str) -> str:
    """Take the name of a candidate. Raises Refusal (400)."""
    name = fields.text(member)
    if not name.isprintable() or not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        detail = f"{member} must have 1 to {NAME_BYTES_MAX} printable bytes; got {quoted(name)}"
        raise Malformed(detail)
    return name


def changed(turns: Turns, asked: State, path: str, version: int) -> Turns:
    """Return an election or a lock after a request. Raises Refusal.

    path: of elections or of locks. version: of the row with the result.
    """
    fields = Fields({name: each for name, each in asked.items() if name != "value"})
    kind, value = fields.text("kind"), asked.get("value")
    if kind == RESIGNS[path]:
        return _resigned(turns, fields, version)
    if kind == CAMPAIGNS[path]:
        candidate = candidate_of(fields, value)
        fields.end()
        return by_store.campaigned(turns, candidate, version)
    match kind:
        case "GoneRequest":
            lease = fields.text("lease")
            fields.end()
            return by_store.gone(turns, lease, version)
        case "PromoteRequest":
            fields.end()
            return by_store.promoted(turns, version)
        case "TransferRequest":
            name, token = _holder_in(fields)
            to, number = name_of(fields, "to"), number_of(fields)
            fields.end()
            return by_store.transferred(turns, name, token, to=to, number=number, version=version)
        case "ProclaimRequest":
            name, token = _holder_in(fields)
            number = number_of(fields)
            fields.end()
            check_value(value)
            return by_store.proclaimed(turns, name, token, value, number=number)
    kinds = f"{CAMPAIGNS[path]}, {RESIGNS[path]}, TransferRequest, ProclaimRequest"
    raise Malformed(f"`kind` must be one of {kinds}")


def _holder_in(fields: Fields) -> tuple[str, int]:
    return name_of(fields, "candidate"), fields.whole("token", 1, TOKEN_MAX)


def _resigned(turns: Turns, fields: Fields, version: int) -> Turns:
    """Remove a holder by its token, or a holder or candidate by its lease."""
    if fields.has("token") == fields.has("lease"):
        raise Malformed("give `token`, of the holder, or `lease`, of the candidate, but not both")
    if fields.has("lease"):
        candidate = candidate_of(fields)
        fields.end()
        return by_store.withdrawn(turns, candidate, version)
    name, token = _holder_in(fields)
    number = number_of(fields)
    fields.end()
    return by_store.resigned(turns, name, token, number=number, version=version)


def gone_request(link: str, lease: str) -> Operation:
    return Operation(
        verb="PATCH",
        link=link,
        body=json.dump({"kind": "GoneRequest", "lease": lease}),
        media="handler",
    )


class TurnService:
    """The service of elections, or of locks. Callers check requests of clients first."""

    checks = True

    def __init__(self, path: str, kind: str) -> None:
        self.options = ServiceOptions(path=path, kind=kind, methods=(), numbered=True)

    def check(self, state: State) -> None:
        turns_of(state)

    def patch(self, state: State, change: State) -> State | None:
        before = turns_of(state)
        after = changed(before, change, self.options.path, state["documentVersion"])
        return None if after is before else state_of(after)
