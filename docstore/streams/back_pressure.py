"""Reasons for a leader to defer new records: it may have been replaced, or it yields.

A leader whose process stalled, or that does not hear a majority of the group, first asks its
followers whether its epoch is the newest (rule RC10), so that it appends no record that it cannot
commit. A leader that yields, to the preferred replica or because its node stops, waits until its
followers have the whole log, so that the next leader lacks no record. A leader whose disk stores
nothing resigns.
"""

from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.leader import Leader
from docstore.streams.leading import Leading, in_set
from docstore.streams.role_transitions import Roles
from docstore.wire.streams_messages import Yield

PROBE_INTERVAL_S = 0.5
ANYBODY = ""
"""Value of `yielding_to` that accepts any replica as the successor."""


class Deferring:
    """Defers the records of the partitions that this node leads."""

    def __init__(self, core: Core, disk: Disk, leader: Leader, roles: Roles) -> None:
        self._core = core
        self._disk = disk
        self._leader = leader
        self._roles = roles
        self._probing: dict[str, Leading] = {}
        self._yielding: dict[str, Leading] = {}
        self._damaged: dict[str, Leading] = {}
        self._asked_at = core.now
        self._resigned_at = core.now

    def tick(self) -> None:
        """Detect a lost majority or a stuck disk, and advance what was begun."""
        core = self._core
        if core.view.lacks_quorum and core.now - self._asked_at >= PROBE_INTERVAL_S:
            self.ask_all()
        for leading in list(self._probing.values()):
            self._check(leading)
            if leading.probe and core.now - leading.probed_at >= core.config.replication.resend_s:
                self._ask(leading)
        if core.draining:
            for leading in self._leader.leading.values():
                self._begin_to_yield(leading, ANYBODY)
        for leading in list(self._yielding.values()):
            self._go_on(leading)
        for leading in list(self._damaged.values()):
            self._give_up(leading)
        self._watch_disk()

    def ask_all(self) -> None:
        """Ask the followers of every partition that we lead whether its epoch is the newest."""
        core = self._core
        self._asked_at = core.now
        core.counters["probes"] += 1
        for leading in self._leader.leading.values():
            if leading.is_online:
                self.ask(leading)

    def ask(self, leading: Leading) -> None:
        """Defer new records until the followers have confirmed that this epoch is the newest."""
        leading.last_probe = leading.probe = self._core.next_token()
        self._probing[leading.log.name] = leading
        self._ask(leading)

    def _ask(self, leading: Leading) -> None:
        """Send the probe to the followers that have not answered it."""
        leading.probed_at = self._core.now
        for follower in leading.followers.values():
            if follower.probe < leading.probe:
                self._leader.catchup.ask(leading, follower)

    def acked(self, leading: Leading) -> None:
        """Check whether all answers are there, after a follower has answered."""
        if leading.probe:
            self._check(leading)

    def _check(self, leading: Leading) -> None:
        """Release the records once each connected follower of the live replica set has answered."""
        view = self._core.view
        if self._leader.leading.get(leading.log.name) is not leading:
            self._probing.pop(leading.log.name, None)
            return
        for follower in leading.followers.values():
            is_asked = in_set(leading.recorded, follower.node) and view.is_linked(follower.node)
            if is_asked and follower.probe < leading.probe:
                if not follower.is_attached:
                    continue  # The follower cannot answer before it has attached.
                return
        leading.probe = 0
        self._probing.pop(leading.log.name, None)
        self._leader.appending.release(leading)

    # Yielding

    def asked_to_yield(self, sender: str, message: Yield) -> None:
        """Begin to yield to the replica that the controller prefers."""
        for name, epoch, to in message.partitions:
            leading = self._leader.leading.get(name)
            if leading is not None and leading.epoch == epoch:
                self._begin_to_yield(leading, to)

    def _begin_to_yield(self, leading: Leading, to: str) -> None:
        if leading.yielding_to is None and leading.is_online:
            leading.yielding_to = to
            leading.yield_until = self._core.now + self._core.config.transfers.yield_s
            self._yielding[leading.log.name] = leading

    def _go_on(self, leading: Leading) -> None:
        """Resign once a possible successor has the whole log; give up if that takes too long."""
        core, name = self._core, leading.log.name
        if self._leader.leading.get(name) is not leading:
            del self._yielding[name]
            return
        to = leading.yielding_to
        level = all(
            follower.acked >= leading.log.end
            for follower in leading.followers.values()
            if in_set(leading.recorded, follower.node) and to in (ANYBODY, follower.node)
        )
        is_over = core.now >= leading.yield_until
        is_ready = level or (is_over and core.draining)
        if is_ready and core.now - leading.resigned_at >= core.config.replication.resend_s:
            leading.resigned_at = core.now
            self._roles.resign(leading.log, leading.epoch, "makes way")
        if (
            is_over
            and not core.draining
            and core.now >= leading.yield_until + core.config.transfers.yield_s
        ):
            del self._yielding[name]
            leading.yielding_to = None
            self._leader.appending.release(leading)

    @property
    def leads_what_others_could(self) -> bool:
        """Say whether this node leads a partition that another live replica could lead."""
        view = self._core.view
        return any(
            in_set(leading.recorded, node) and view.is_alive(node)
            for leading in self._leader.leading.values()
            for node in leading.followers
        )

    def damaged(self, leading: Leading) -> None:
        """Resign, and repeat it until another replica leads: our own log is damaged."""
        self._damaged[leading.log.name] = leading
        self._give_up(leading)

    def _give_up(self, leading: Leading) -> None:
        core, name = self._core, leading.log.name
        if self._leader.leading.get(name) is not leading:
            del self._damaged[name]
        elif core.now - leading.resigned_at >= core.config.replication.resend_s:
            leading.resigned_at = core.now
            self._roles.resign(leading.log, leading.epoch, "damaged")

    def _watch_disk(self) -> None:
        core = self._core
        if (
            core.now - self._disk.persists_nothing_since <= core.config.elections.stuck_s
            or not core.has_room
        ):
            return
        if core.now - self._resigned_at < core.config.elections.stuck_s:
            return
        self._resigned_at = core.now
        for leading in self._leader.leading.values():
            if leading.waits:
                self._roles.resign(leading.log, leading.epoch, "stuck")
