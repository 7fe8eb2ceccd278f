"""Offsets of groups: the position up to which a group has read a partition of a topic.

An offset is the document `/core/groups/<group>/offsets/<topic>/<partition>`. A member with a new
tenure claims the offset with its token, and the answer contains the position from which to read
(GO1). From then on no other token can commit (GO2): neither a smaller token, nor one that claimed
the offset of a group that was deleted since. So the previous member's last commit is either
contained in the answer to the claim, or refused. With one token an offset only grows, so a delayed
repetition of a commit does not set it back.

A reset by an operator names the version of the group's document that had no members as its token
(GO4). All tokens granted before are smaller, and all granted later are greater.

An offset belongs to one incarnation of its topic (GO3). A claim names the present incarnation. If
the group has read an earlier one, it begins at offset 0 of the present one, whose records are all
newer. A commit that names another incarnation than the claim is refused.
"""

import re

from docstore.model.fields import Fields
from docstore.model.service import Malformed, Refusal, ServiceOptions, State
from docstore.model.settings import quoted
from docstore.services.group_document import GROUPS, NUMBER_MAX

OFFSETS = "offsets"
NOTHING = -1
"""Offset of a partition without a commit."""
METADATA_MAX = 4_096
OUT_OF_RANGE, RECREATED = "offset-out-of-range", "topic-recreated"
NOT_EMPTY = "group-not-empty"
INCARNATION = "incarnation"
MEMBERS = frozenset(
    {"offset", "token", "generation", "member", "recordEpoch", "metadata", INCARNATION}
)
_FACTORY = re.compile(rf"{GROUPS}/[^/]+/{OFFSETS}/[^/]+\Z")


def is_of_offsets(path: str) -> bool:
    """Say whether documents below this path are offsets of a group and a topic."""
    return path.startswith(GROUPS) and _FACTORY.match(path) is not None


def offset_link(group: str, partition: str) -> str:
    """Return the link of an offset. group: link of the group. partition: `<topic>/<number>`."""
    return f"{group}/{OFFSETS}/{partition}"


def nothing_read() -> State:
    """Return the state of a partition that no member has claimed yet."""
    return {
        "offset": NOTHING,
        "token": 0,
        "generation": 0,
        "member": "",
        "recordEpoch": 0,
        "metadata": "",
        INCARNATION: "",
    }


class OffsetService:
    """The service of offsets."""

    options = ServiceOptions(
        path=f"{GROUPS}/*/{OFFSETS}/*", kind="docstore:Offset", put_creates=False, methods=()
    )
    checks = True

    def check(self, state: State) -> None:
        if state.keys() != MEMBERS:
            raise Malformed(f"an offset must have the members {', '.join(sorted(MEMBERS))}")

    def patch(self, state: State, change: State) -> State | None:
        """Return the state after a claim, a commit or a reset; None if nothing changes."""
        fields = Fields(change)
        kind, named = fields.text("kind"), fields.text(INCARNATION, default="")
        if kind == "ResetRequest":
            offset = fields.whole("offset", NOTHING, NUMBER_MAX)
            metadata = _metadata(fields, state["metadata"])
            token = fields.whole("token", 0, NUMBER_MAX, default=state["token"])
            after = state | {"offset": offset, "metadata": metadata, INCARNATION: named}
            fields.end()
            return _reset(state, after, token)
        offset, end = NOTHING, NUMBER_MAX
        said: State = {
            "token": fields.whole("token", 1, NUMBER_MAX),
            "generation": fields.whole("generation", 0, NUMBER_MAX, default=0),
            "member": fields.text("member", default=""),
        }
        if kind == "CommitRequest":
            said["offset"] = offset = fields.whole("offset", 0, NUMBER_MAX)
            end = fields.whole("end", 0, NUMBER_MAX, default=end)
            said["recordEpoch"] = fields.whole("recordEpoch", 0, NUMBER_MAX, default=0)
            said["metadata"] = _metadata(fields, "")
        elif kind != "ClaimRequest":
            raise Malformed(
                f"`kind` must be ClaimRequest, CommitRequest or ResetRequest; got {quoted(kind)}"
            )
        fields.end()
        base = _of_incarnation(state, named, is_claim=kind == "ClaimRequest")
        found = _after(base, said)
        if offset > end:
            raise Refusal(out_of_range(offset, 0, end), status=416, code=OUT_OF_RANGE)
        return base if found is None and base != state else found


def _reset(state: State, after: State, token: int) -> State | None:
    """Return the state after a reset; its token fences members that claimed the offset before."""
    if token < state["token"]:
        detail = "a member has claimed the offset meanwhile: stop the consumers, and reset it again"
        raise Refusal(detail, status=409, code=NOT_EMPTY)
    after = after | {"token": token}
    return None if after == state else after


def _metadata(fields: Fields, default: str) -> str:
    metadata = fields.text("metadata", default=default)
    if len(metadata) > METADATA_MAX:
        raise Malformed(f"`metadata` must have at most {METADATA_MAX} characters")
    return metadata


def out_of_range(offset: int, start: int, end: int) -> str:
    """Return the refusal's text for an offset outside of a partition."""
    return f"offset must be from {start} to {end}; got {offset}"


def _of_incarnation(state: State, named: str, *, is_claim: bool) -> State:
    """Return the offset's state for the incarnation that a request names, if it names one."""
    known = state[INCARNATION]
    if named in ("", known):
        return state
    if not known:
        return state | {INCARNATION: named}
    if not is_claim:
        detail = f"incarnation {known} of the topic was claimed, not {named}: claim it first"
        raise Refusal(detail, status=409, code=RECREATED)
    begins = min(0, state["offset"])
    return state | {"offset": begins, "recordEpoch": 0, "metadata": "", INCARNATION: named}


def _after(state: State, said: State) -> State | None:  # Tests replace this.
    if said["token"] < state["token"]:
        detail = f"token {state['token']} has claimed the offset: stop using token {said['token']}"
        raise Refusal(detail, status=409, code="fenced")
    if "offset" in said and said["token"] > state["token"]:
        raise Refusal(
            f"token {said['token']} has not claimed the offset: send a ClaimRequest",
            status=409,
            code="not-claimed",
        )
    is_same_tenure = said["token"] == state["token"]
    if is_same_tenure and said.get("offset", NOTHING) <= state["offset"]:
        return None
    return state | said
