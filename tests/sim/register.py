"""Model of the group's documents as one register, for the machines that run beside documents.

An operation takes effect at one moment between request and answer, or not at all, or after the
answer that its fate is unknown. A slot moves to another owner when nodes die or are not heard. A
deposed owner believes for a while that it still owns the slot, as with an open term.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence

from docstore.documents.write_path.handle import New, Refused, Unchanged, handle, unmet
from docstore.model.agenda import has_agenda, packed_agenda
from docstore.model.document import Row
from docstore.model.identity import OperationIdentity
from docstore.model.operation import Answer, Operation
from docstore.model.paths import partition_key
from docstore.model.service import Service
from tests.sim.hosts import Host, Hosts
from tests.sim.process import EPOCH_US

GRACE_S = 0.6
"""About how long an owner may be out of reach before another node takes over."""

Told = Callable[[Answer], None]


class Register:
    """Documents of a group of hosts."""

    def __init__(
        self, hosts: Hosts, slots: int, services: Callable[[str], Service], *paths: str
    ) -> None:
        """services: link -> its service. paths: below which a survey looks."""
        self.hosts = hosts
        self.world = hosts.world
        self.slots = slots
        self.versions: dict[str, list[Row]] = {}
        """Link -> its versions, all decided, in order."""
        self.decided: Callable[[Row], None] = lambda row: None
        self.notice: Callable[[str, Row], None] = lambda name, row: None
        self.trouble = 1.0
        """How often an operation goes wrong; 0 once all is healed: nothing is lost or late then."""
        self.owners = {slot: hosts.names[slot % len(hosts.names)] for slot in range(slots)}
        self.epochs = dict.fromkeys(range(slots), 1)
        self.terms = dict.fromkeys(hosts.names, 1)
        self.beliefs = {name: self._slots_of(name) for name in hosts.names}
        """Node -> the slots that it believes to own, each with the epoch of its term."""
        self.known = {name: dict(self.owners) for name in hosts.names}
        self._away_since: dict[int, float] = {}
        self._services = services
        self._below = tuple(f"{path}/" for path in paths)
        self._by_key: dict[tuple[str, str], Row] = {}
        """(link, idempotency key) -> the row that it made."""
        for host in hosts.processes.values():
            host.crashed = self._crashed
        self.world.after(0.1, self._tick)

    def slot_of(self, link: str) -> int:
        """Return the slot of a document."""
        return zlib.crc32(partition_key(link).encode()) % self.slots

    def newest(self, link: str) -> Row | None:
        """Return a document's newest version."""
        rows = self.versions.get(link)
        return rows[-1] if rows else None

    # Operations

    def ask(self, node: str, operation: Operation, timeout_s: float, told: Told) -> None:
        """Execute an operation as a client of a node; it ends by the timeout."""
        rng = self.world.rng
        delay = 0.002 + rng.random() * 0.006
        chance = rng.random() / self.trouble if self.trouble else 1.0
        late = timeout_s * (0.3 + 0.7 * rng.random())
        if chance < 0.03:
            self.world.after(delay, told, Answer(503, "no-quorum", "refused"))
        elif chance < 0.06 and not operation.is_read:
            # Applied, and the answer is lost.
            self.world.after(delay, self._reach, node, operation)
            self.world.after(late, told, Answer(504, "undecided", "lost", unknown=True))
        elif chance < 0.08 and not operation.is_read:
            self.world.after(late, told, Answer(504, "undecided", "late", unknown=True))
            after = late + rng.random() * 0.5 - 0.25
            self.world.after(after, self._reach, node, operation)
        elif chance < 0.10 and not operation.is_read:
            self.world.after(late, told, Answer(504, "undecided", "never", unknown=True))
        elif chance < 0.14:
            self.world.after(rng.random() * timeout_s, self._attempt, node, operation, told)
        else:
            give_up = self.world.now + late
            self.world.after(delay, self._attempt, node, operation, told, give_up)

    def _attempt(self, node: str, operation: Operation, told: Told, give_up: float = 0.0) -> None:
        """Try to reach the owner, again and again until it is time to give up."""
        rng = self.world.rng
        answer = self._reach(node, operation)
        if answer is not None:
            self.world.after(0.001 + rng.random() * 0.004, told, answer)
        elif self.world.now < give_up:
            self.world.after(0.05, self._attempt, node, operation, told, give_up)
        elif not operation.is_read and rng.random() < 0.5:
            told(Answer(504, "undecided", "no answer", unknown=True))
        else:
            told(Answer(503, "no-quorum", "no owner"))

    def _reach(self, node: str, operation: Operation) -> Answer | None:
        """Apply an operation if the owner can be reached, and can decide."""
        slot = self.slot_of(operation.link)
        owner = self.owners[slot]
        if not self._is_away(owner) and (node == owner or self.hosts.reaches(node, owner)):
            return self.apply(operation)
        return None

    def apply(self, operation: Operation) -> Answer:
        """Execute an operation at this moment."""
        link, slot = operation.link, self.slot_of(operation.link)
        current = self.newest(link)
        said = Answer(200, row=current, owner=self.owners[slot], epoch=self.epochs[slot])
        if operation.verb == "GET":
            there = current is not None and not current.deleted
            return said if there else said._replace(status=404)
        made = self._by_key.get((link, operation.key))
        if made is not None:
            return said._replace(code="repeated", row=made)
        if operation.only_epoch and operation.only_epoch != said.epoch:
            return said._replace(status=412, code="other-reign")
        refusal = self._unmet(operation) if operation.given else None
        if refusal is not None:
            return refusal
        now_us = EPOCH_US + int(self.world.now * 1e6)
        outcome = handle(current, operation, self._services(link), floor=-1, now_us=lambda: now_us)
        if isinstance(outcome, Refused):
            return outcome.answer
        if isinstance(outcome, Unchanged):
            return said._replace(row=outcome.row)
        return said._replace(row=self._write(operation, outcome))

    def _unmet(self, operation: Operation) -> Answer | None:
        """Return why the document that an operation depends on refuses it (rule A4)."""
        link, change = operation.given
        given = Operation(verb="PATCH", link=link, body=change, media="handler")
        return unmet(self.newest(link), given, self._services(link))

    def _write(self, operation: Operation, new: New) -> Row:
        slot = self.slot_of(operation.link)
        rows = self.versions.setdefault(operation.link, [])
        row = Row(
            slot, 0, self.epochs[slot], self.owners[slot], operation.link,
            new.version, operation.verb, EPOCH_US + int(self.world.now * 1e6), new.deleted,
            b"", _identity(operation.key, new), b"", new.state,
        )  # fmt: skip
        rows.append(row)
        if operation.key:
            self._by_key[operation.link, operation.key] = row
        self.decided(row)
        self._publish(row)
        return row

    def _publish(self, row: Row) -> None:
        """Let the owner, and most nodes that it reaches, notice a row."""
        rng = self.world.rng
        for name in self.hosts.names:
            if name == row.owner or (
                self.hosts.reaches(row.owner, name) and rng.random() >= 0.1 * self.trouble
            ):
                life = self.hosts.processes[name].life
                self.world.after(0.001 + rng.random() * 0.05, self._noticed, name, life, row)

    def _noticed(self, name: str, life: int, row: Row) -> None:
        if self.hosts.processes[name].life == life:
            self.notice(name, row)

    def survey(self, node: str) -> list[Row]:
        """Return the documents in the slots of a node as its disk has them, some of them stale."""
        found = []
        for link, rows in sorted(self.versions.items()):
            if not link.startswith(self._below) or self.slot_of(link) not in self.beliefs[node]:
                continue
            stale = len(rows) > 1 and self.world.rng.random() < 0.1 * self.trouble
            row = rows[-2] if stale and not rows[-2].deleted else rows[-1]
            if not row.deleted or has_agenda(row):
                found.append(row)
        return found

    # Owners

    def _slots_of(self, name: str) -> dict[int, int]:
        return {slot: self.epochs[slot] for slot, owner in self.owners.items() if owner == name}

    def _is_away(self, name: str) -> bool:
        """Say whether a node cannot decide anything: it has no majority."""
        host = self.hosts.processes[name]
        if not host.up or host.paused:
            return True
        reached = sum(self.hosts.reaches(name, other) for other in self.hosts.others(name))
        return 2 * (reached + 1) <= len(self.hosts.names)

    def _crashed(self, host: Host) -> None:
        """End a node's beliefs: a term never outlives its process, however short the outage."""
        self.beliefs[host.name].clear()

    def _tick(self) -> None:
        rng, now = self.world.rng, self.world.now
        for slot, owner in self.owners.items():
            if not self._is_away(owner) and not self.hosts.processes[owner].is_draining:
                self._away_since.pop(slot, None)
            elif now - self._away_since.setdefault(slot, now) > GRACE_S * (0.5 + rng.random()):
                self._take_over(slot)
        for name in self.hosts.names:
            self._learn(name)
        self.world.after(0.1, self._tick)

    def able(self) -> list[str]:
        """Return the nodes that can own anything now."""
        return [
            name
            for name in self.hosts.names
            if not self._is_away(name) and not self.hosts.processes[name].is_draining
        ]

    def _take_over(self, slot: int) -> None:
        able = self.able()
        if self.owners[slot] not in able:
            self._hand(slot, able)

    def _hand(self, slot: int, able: Sequence[str]) -> None:
        if not able:
            return
        owner = self.world.rng.choice(able)
        self.owners[slot] = owner
        self.epochs[slot] += 1
        self._away_since.pop(slot, None)
        self.beliefs[owner][slot] = self.epochs[slot]
        self.known[owner][slot] = owner
        self.terms[owner] += 1

    def _learn(self, name: str) -> None:
        """Let a node learn, sooner or later, the owners of the slots."""
        host = self.hosts.processes[name]
        for slot, owner in self.owners.items():
            heard = owner == name or self.hosts.reaches(name, owner)
            if host.up and not host.paused and heard and self.world.rng.random() < 0.5:
                self.known[name][slot] = owner
                if owner != name:
                    self.beliefs[name].pop(slot, None)
                elif slot not in self.beliefs[name]:
                    # It was down too briefly for another node to take over.
                    self.epochs[slot] += 1
                    self.beliefs[name][slot] = self.epochs[slot]
                    self.terms[name] += 1


def _identity(key: str, new: New) -> bytes:
    """Return a row's operation identity, with the fields that are read here."""
    agenda = packed_agenda(new.agenda)
    if not new.fences and not agenda:
        return b""
    return OperationIdentity("", 0, 0, 0, key, fences=new.fences, agenda=agenda).pack()


class RegisterView:
    """A node's view of its group (`docstore/machines/view.py`)."""

    zones: Mapping[str, str] = {}
    leavers: frozenset[str] = frozenset()

    def __init__(self, name: str, hosts: Hosts, register: Register) -> None:
        self._name, self._hosts, self._register = name, hosts, register

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._hosts.names)

    @property
    def terms_opened(self) -> int:
        return self._register.terms[self._name]

    @property
    def lacks_quorum(self) -> bool:
        heard = sum(self.is_alive(node) for node in self._hosts.names)
        return 2 * heard <= len(self._hosts.names)

    @property
    def is_draining(self) -> bool:
        return self._hosts.processes[self._name].is_draining

    def is_alive(self, node: str) -> bool:
        return self._hosts.is_alive(self._name, node)

    def is_linked(self, node: str) -> bool:
        return (self._name, node) in self._hosts.links

    def may_own(self, node: str) -> bool:
        return self.is_alive(node) and not self._hosts.processes[node].is_draining

    def owns(self, link: str) -> bool:
        return self._register.slot_of(link) in self._register.beliefs[self._name]

    def own_epoch(self, link: str) -> int:
        return self._register.beliefs[self._name].get(self._register.slot_of(link), 0)

    def owner_of(self, link: str) -> str:
        return self._register.known[self._name][self._register.slot_of(link)]

    def slot_of(self, link: str) -> int:
        return self._register.slot_of(link)

    def wall_now_us(self) -> int:
        ahead = self._hosts.processes[self._name].clock_ahead_us
        return EPOCH_US + int(self._hosts.world.now * 1e6) + ahead

    def past_us(self) -> int:
        return EPOCH_US + int(self._hosts.world.now * 1e6)
