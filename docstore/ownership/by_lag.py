"""Policy by lag: the in-sync replica that lags least behind the last leader leads.

Based on Fluvio's replica election: live replica set (LRS), log end offset, high watermark. The
fence is the epoch in the partition's document: each election adds one, by a conditional update, and
a replica promises it durably before it reports its log (`ballot.py`). Here are the rules only:
which copy is elected, what is committed, which copies are in the LRS, and which state of a
partition may follow which.

Fluvio names nodes; we name *copies* (node, copy id), since a node that lost its data proves nothing
any more. In Fluvio a leader may count alone, and copies outside the LRS are never elected; we have
`minInSync`, and a set of eligible copies outside the LRS (ELR), as in KIP-966.

Why it is safe. A record is committed once all copies of the LRS that the leader knows, and of
each one that it has asked for and that may be recorded meanwhile, have it on their disks, and
the known LRS has at least `minInSync` copies. We show that every copy in the recorded LRS + ELR
has all that was ever committed.

* *Nothing is committed* while the LRS is too small. So a copy that leaves it then, or whose
  leaving made it too small, still has everything, and goes to the ELR. With enough copies in the
  LRS records are committed without those outside: the ELR is emptied by the same update.
* *A copy is added* once it has all that is committed, and counts from before the update is sent:
  nothing is committed in between that it lacks.
* *A copy is removed*, but is still counted until the update is known to be recorded. While the
  outcome of an update is unknown, the copies before it and those after it must all have a record:
  hence the union.
* *An election* elects a copy of LRS + ELR. The copy promises the new epoch before it reports its
  log, and appends nothing of the old leader afterwards. The old leader must count this
  copy: if it is in the recorded LRS, by the union; if it is in an ELR, the leader that moved it
  there counts it or commits nothing. So the reported log has every record that the old epoch will
  ever commit, and the election truncates none of these records.
* *An epoch has one leader*: only the update that raises the epoch begins an election, only
  one later update names the candidate, and each update names the version before it.

Hence the order of logs is about quality here, not safety: any eligible copy would do, but one
with the greatest (adopted, end) loses the fewest records that were not committed. A copy that
adopted a later leader comes before a longer log: the tail of the longer one may be what that
leader had cut off.
"""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from docstore.model.document import Ballot

Copy = tuple[str, str]
"""(node id, id of its copy of the data). A node whose data was replaced has another copy."""

Copies = tuple[Copy, ...]


class Resolution(StrEnum):
    """The state of a partition. Source: Fluvio's replica election."""

    ONLINE = "Online"
    ELECTION = "Election"
    CANDIDATE_FOUND = "CandidateFound"
    OFFLINE = "Offline"
    OUT_OF_STORAGE = "OutOfStorage"
    DELETED = "Deleted"


# Choice of the leader, and the commit position


def choose(  # Tests replace this.
    answers: Mapping[str, tuple[Ballot, int]], rank: Callable[[str], int]
) -> str | None:
    """Return the node that should lead, None if none may (rule RF6).

    answers: node -> (adopted, end), of eligible nodes that have promised the epoch. rank: decides
    between equal logs, the smaller first.
    """
    return max(sorted(answers), key=lambda node: (answers[node], -rank(node)), default=None)


def high_watermark(acks: Mapping[Copy, int], required: Collection[Copy]) -> int | None:
    """Return the offset below which all of `required` have every record; None if one has not acked.

    acks: copy -> end of its durable log, as acknowledged in this epoch.
    """
    if not required or not acks.keys() >= set(required):
        return None
    return min(acks[node] for node in required)


# Membership of the live replica set (rule RC4)


def without(lrs: Copies, elr: Copies, gone: Collection[Copy], least: int) -> tuple[Copies, Copies]:
    """Return LRS and ELR after some copies have fallen behind; least: `minInSync`."""
    return _with_eligible(lrs, elr, tuple(each for each in lrs if each not in gone), least)


def with_added(lrs: Copies, elr: Copies, copy: Copy, least: int) -> tuple[Copies, Copies]:
    """Return LRS and ELR after a copy has caught up. Other copies of its node are removed."""
    lrs, elr = _without_node(lrs, copy[0]), _without_node(elr, copy[0])
    return _with_eligible(lrs, elr, (*lrs, copy), least)


def elected(
    lrs: Copies, elr: Copies, answered: Collection[Copy], candidate: Copy, least: int
) -> tuple[Copies, Copies]:
    """Return LRS and ELR of an election: the candidate, and the eligible copies that answered.

    answered: copies that may be elected and have promised the epoch. In the first election of all
    they are copies that never held anything, and each of them has all that was ever committed. The
    candidate of an unclean election begins alone: other copies may have other records.
    """
    assert candidate in answered
    eligible = (*lrs, *elr) or (candidate, *sorted(each for each in answered if each != candidate))
    if candidate not in eligible:
        return (candidate,), ()
    live = tuple(each for each in eligible if each in answered)
    return _with_eligible(lrs, elr, live, least)


def _with_eligible(  # Tests replace this.
    lrs: Copies, elr: Copies, after: Copies, least: int
) -> tuple[Copies, Copies]:
    if len(after) >= least:
        return after, ()
    return after, tuple(each for each in (*lrs, *elr) if each not in after)


def _without_node(copies: Copies, node: str) -> Copies:
    return tuple(each for each in copies if each[0] != node)


# Transitions between states


class Transition(NamedTuple):
    """A rule for a change of resolution: its condition, and how much the epoch must grow."""

    when: str
    epochs: int = 0


_DEAD = "the leader is dead, resigns, or makes way for another one"
_DELETED = "the topic is deleted"
_KEEPS = "its settings or its replicas change"

RESOLUTIONS: Mapping[tuple[Resolution, Resolution], Transition] = {
    (Resolution.ONLINE, Resolution.ELECTION): Transition(_DEAD, 1),
    (Resolution.OUT_OF_STORAGE, Resolution.ELECTION): Transition(_DEAD, 1),
    (Resolution.ELECTION, Resolution.CANDIDATE_FOUND): Transition(
        "a replica that may lead has answered, and so have the others, or their time is over"
    ),
    (Resolution.ELECTION, Resolution.OFFLINE): Transition("no replica that may lead has answered"),
    (Resolution.CANDIDATE_FOUND, Resolution.ONLINE): Transition("the candidate is ready to lead"),
    (Resolution.CANDIDATE_FOUND, Resolution.ELECTION): Transition(
        "the candidate is dead, refuses, or is silent for too long", 1
    ),
    (Resolution.OFFLINE, Resolution.ELECTION): Transition(
        "a replica that may lead is back, or an operator asks for it", 1
    ),
    (Resolution.ONLINE, Resolution.OUT_OF_STORAGE): Transition("the leader's disk is full"),
    (Resolution.OUT_OF_STORAGE, Resolution.ONLINE): Transition("the leader's disk has room again"),
    (Resolution.ONLINE, Resolution.ONLINE): Transition(f"the LRS changes, or {_KEEPS}"),
    (Resolution.OUT_OF_STORAGE, Resolution.OUT_OF_STORAGE): Transition(
        f"the LRS changes, or {_KEEPS}"
    ),
    (Resolution.ELECTION, Resolution.ELECTION): Transition(_KEEPS),
    (Resolution.CANDIDATE_FOUND, Resolution.CANDIDATE_FOUND): Transition(_KEEPS),
    (Resolution.OFFLINE, Resolution.OFFLINE): Transition(_KEEPS),
    (Resolution.ONLINE, Resolution.DELETED): Transition(_DELETED),
    (Resolution.OUT_OF_STORAGE, Resolution.DELETED): Transition(_DELETED),
    (Resolution.ELECTION, Resolution.DELETED): Transition(_DELETED),
    (Resolution.CANDIDATE_FOUND, Resolution.DELETED): Transition(_DELETED),
    (Resolution.OFFLINE, Resolution.DELETED): Transition(_DELETED),
}
"""(resolution before, resolution after) -> its rule. Other transitions are refused."""

LED = frozenset({Resolution.ONLINE, Resolution.OUT_OF_STORAGE})
"""The resolutions with a leader."""


def may_follow(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:  # Tests replace this.
    """Return "" if a state of a partition's document may follow another one; else the reason.

    Both states are complete and valid (`streams/replica_set.py`). This is a second check: two
    writers cannot collide, because each update names the version that it replaces.
    """
    pair = (Resolution(before["resolution"]), Resolution(after["resolution"]))
    transition = RESOLUTIONS.get(pair)
    if transition is None:
        return f"a partition that is {pair[0]} does not become {pair[1]}"
    if after["epoch"] != before["epoch"] + transition.epochs:
        return f"from {pair[0]} to {pair[1]} the epoch grows by {transition.epochs}"
    if after["incarnation"] != before["incarnation"]:
        return "a partition keeps its incarnation"
    return _why_not_led(pair, before, after) or _why_not_live(pair, before, after)


def _why_not_led(
    pair: tuple[Resolution, Resolution], before: Mapping[str, Any], after: Mapping[str, Any]
) -> str:
    """Return why the leader or the candidate may not follow."""
    if pair == (Resolution.CANDIDATE_FOUND, Resolution.ONLINE):
        return "" if after["leader"] == before["candidate"] else "only the candidate may lead"
    if after["leader"] not in ("", before["leader"]):
        return "a leader is made by an election"
    is_named = pair == (Resolution.ELECTION, Resolution.CANDIDATE_FOUND)
    if not is_named and after["candidate"] not in ("", before["candidate"]):
        return "an epoch has one candidate"
    return ""


def _why_not_live(
    pair: tuple[Resolution, Resolution], before: Mapping[str, Any], after: Mapping[str, Any]
) -> str:
    """Return why the LRS or the ELR may not follow."""
    lrs, elr = _copies(after, "lrs"), _copies(after, "elr")
    eligible = _copies(before, "lrs") | _copies(before, "elr")
    is_elected = pair == (Resolution.ELECTION, Resolution.CANDIDATE_FOUND)
    is_unclean = is_elected and after["unclean"] == after["epoch"]
    if after["unclean"] != before["unclean"] and not is_unclean:
        return "an unclean election is marked by its own epoch, as its candidate is named"
    if is_elected and eligible and not is_unclean and not lrs <= eligible:
        return "only a copy that has all committed records may be elected"
    if is_unclean and (len(lrs) > 1 or elr):
        return "the candidate of an unclean election begins alone"
    if not is_elected and not LED.issuperset(pair) and lrs != _copies(before, "lrs"):
        return "the live replica set is the leader's to change"
    if eligible and not lrs:
        return "the live replica set is never empty again"
    if not elr <= eligible or (len(lrs) >= after["minInSync"] and elr):
        return "only a copy that left in step, while nothing could be committed, is eligible"
    return ""


def _copies(state: Mapping[str, Any], member: str) -> frozenset[tuple[str, ...]]:
    return frozenset(map(tuple, state[member]))
