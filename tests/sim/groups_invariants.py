"""Invariants of groups: their decided rows, their members' sessions, and their offsets."""

from collections import Counter
from collections.abc import Callable

from docstore.model.document import Row
from docstore.services.group_document import GroupState, read_group
from docstore.testing.simulation.world import World
from tests.sim.actors import Sent
from tests.sim.clocks import RATE_ERROR
from tests.sim.invariants import Violation

LOOK_S = 0.01
"""Interval of the checks that each partition has a leader."""
TAKE_OVER_S = 2.0


class GroupInvariants:
    """Checks groups, and the answers to their members."""

    def __init__(self, world: World, checked: Counter[str]) -> None:
        self.checked = checked
        self.groups: dict[str, GroupState | None] = {}
        """Link -> the group as it is decided, None once it is deleted."""
        self._world = world
        self._tokens: dict[tuple[str, str], int] = {}
        """(group, partition) -> the greatest token of any tenure so far."""
        self._holders: dict[str, list[str]] = {}
        """Partition -> its holders so far, in order."""
        self._proven: dict[str, float] = {}
        """Member -> until when it must not be removed, by its confirmed pulses."""
        self._removed: dict[str, float] = {}
        self._leaving: set[str] = set()
        self._committed: dict[str, dict[int, int]] = {}
        """Offset's link -> token -> the greatest offset that was answered as committed."""
        self._claimed: dict[str, dict[int, int]] = {}
        """Offset's link -> token -> the offset at which that tenure began."""
        self._generations: dict[str, list[tuple[float, int]]] = {}
        """Group -> when each generation was decided."""
        self._excused_until = 0.0
        self._led: set[str] = set()

    # Decided rows

    def decided(self, row: Row) -> None:
        """SI2: one tenure of a partition, generations and tokens that grow; SI5 of members."""
        was = self.groups.get(row.link)
        now = self.groups[row.link] = None if row.deleted else read_group(row.state)
        if now is None:
            return
        self.checked["SI2 groups"] += 1
        for member in now.members:
            self._removed.pop(member, None)  # It may have joined again.
        if was is not None and now.generation < was.generation:
            raise Violation(f"SI2: {row.link} goes back to generation {now.generation}")
        self._generations.setdefault(row.link, []).append((self._world.now, now.generation))
        for partition, tenure in now.tenure.items():
            if was is not None and tenure == was.tenure.get(partition):
                continue
            self.checked["tenures"] += 1
            before = self._tokens.get((row.link, partition), -1)
            if tenure.token != row.version or tenure.token <= before:
                raise Violation(f"SI2: {row.link} {partition} {tenure} in version {row.version}")
            self._tokens[row.link, partition] = tenure.token
            self._count_returns(f"{row.link}#{partition}", tenure.member)
        for member in set(was.members) - set(now.members) if was is not None else ():
            self._check_removed(member, now, was)

    def _count_returns(self, partition: str, member: str) -> None:
        held = self._holders.setdefault(partition, [])
        self.checked["returns"] += member in held
        held.append(member)

    def _check_removed(self, member: str, now: GroupState, was: GroupState | None) -> None:
        assert was is not None
        instance = was.members[member].instance
        heirs = [each for each in now.members.values() if each.instance == instance]
        if not (now.is_exclusive or not instance or not heirs):
            return  # Another member has replaced it, and both may lead.
        self.checked["members removed"] += 1
        self._removed[member] = self._world.now
        self._check_session(member)

    def pulsed(self, member: str, session_s: float, sent: Sent) -> None:
        """SI5: no member is removed within one session after its last confirmed pulse."""
        until = sent.at + session_s / (1.0 + RATE_ERROR)
        self._proven[member] = max(until, self._proven.get(member, 0.0))
        self._check_session(member)

    def leaves(self, member: str) -> None:
        """Note that a member has dropped everything, and leaves."""
        self._leaving.add(member)

    def _check_session(self, member: str) -> None:
        removed = self._removed.get(member)
        early_s = 0.0 if removed is None else self._proven.get(member, 0.0) - removed
        if early_s > 1e-6 and member not in self._leaving:
            raise Violation(f"SI5: {member} was removed {early_s:.3f} s before it may be")

    # Offsets

    def committed(self, link: str, token: int, offset: int) -> None:
        """Note an acknowledged commit."""
        told = self._committed.setdefault(link, {})
        told[token] = max(offset, told.get(token, -1))
        self._check_offsets(link)

    def claimed(self, link: str, token: int, offset: int) -> None:
        """Note an acknowledged claim: the tenure begins at this offset."""
        self._claimed.setdefault(link, {}).setdefault(token, offset)
        self._check_offsets(link)

    def _check_offsets(self, link: str) -> None:
        """SI6: a tenure does not begin before an offset committed under an earlier one."""
        for token, offset in self._claimed.get(link, {}).items():
            for earlier, committed in self._committed.get(link, {}).items():
                self.checked["SI6"] += 1
                if earlier < token and committed > offset:
                    raise Violation(
                        f"SI6: {link} is read from {offset} under {token}, and {committed} was"
                        f" committed under {earlier}"
                    )

    def granted(self, group: str, generation: int, asked_at: float) -> None:
        """SI11: no commit is granted in a generation that was over when it was requested."""
        self.checked["SI11"] += 1
        before = [each for at, each in self._generations.get(group, ()) if at <= asked_at]
        if before and before[-1] > generation:
            raise Violation(f"SI11: {group} grants {generation}, and is in {before[-1]}")

    # No gaps between leaders

    def excuse(self, seconds: float) -> None:
        """Allow gaps for this time, after a fault."""
        self._excused_until = max(self._excused_until, self._world.now + seconds)

    def calm(self, seconds: float) -> None:
        """Allow gaps for this time at most: all faults have ended."""
        self._excused_until = min(self._excused_until, self._world.now + seconds)

    def watch_gaps(self, led: Callable[[], set[str]]) -> None:
        """SI3: check again and again that each partition that was led still is."""
        now_led = led()
        self._led |= now_led
        gaps = self._led - now_led
        if self._world.now > self._excused_until:
            self.checked["SI3"] += len(self._led)
            if gaps:
                raise Violation(f"SI3: no member leads {sorted(gaps)}")
        self._world.after(LOOK_S, self.watch_gaps, led)


def gap_s(session_s: float) -> float:
    """Return the longest gap after a crash; another coordinator doubles it."""
    return 2 * (session_s / (1.0 - RATE_ERROR) + TAKE_OVER_S + 0.5)
