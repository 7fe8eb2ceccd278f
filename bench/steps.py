"""`python -m bench.steps`: what a PUT costs the protocol and its frames, without sockets and disks.

Three replicas in one process say to each other what they would say between nodes, packed into
frames and unpacked. A turn brings PUTs to one owner, spread over its slots: 1 as with one
client, 6 as with 64, 256 as in a bulk load. Processor time of all three together, the least of
several repetitions, so that what else the machine does is left out.
"""

import argparse
import gc
import itertools
import time
from collections.abc import Sequence
from random import Random

from docstore.documents.events import Event, Requested
from docstore.documents.owners import owner_of
from docstore.documents.replica import Replica
from docstore.machines.effects import Give, Persist, Read, Send
from docstore.machines.events import LinkMade, Persisted, QueriesAnswered, Received, Tick, TurnEnded
from docstore.model.operation import Operation
from docstore.model.service import ServiceOptions
from docstore.ownership.configuration import Configuration, MemberEntry, first_registered
from docstore.services.declared import DeclaredService
from docstore.storage.store import Recovered
from docstore.wire.frames import Packed, unpack_frame
from docstore.wire.link_messages import Message

NAMES = ("n1", "n2", "n3")
SLOTS, LINKS = 1024, 3000
BODY = b'{"text": "%s", "number": 1}' % (b"x" * 170)
TURNS = (1, 2, 6, 20, 256)


class Group:
    """Three replicas with a clock that the benchmark sets, and disks that are done at once."""

    def __init__(self) -> None:
        self.now = 1.0
        self.answered = 0
        self.spent_s = dict.fromkeys(NAMES, 0.0)
        """Replica -> processor time of its steps and frames."""
        self._numbers = itertools.count(1)
        self._outbox: dict[tuple[str, str], list[Message]] = {}
        members = tuple(MemberEntry(name, f"{name}.0", "host", 7000) for name in NAMES)
        founded = first_registered(Configuration(1, "steps", SLOTS, 1, None, members)).pack()
        service = DeclaredService(ServiceOptions(path="/bench", kind="bench"))
        self.replicas = {
            name: Replica(
                name, Recovered(f"{name}.0", 1, founded), service_for=lambda link, since: service,
                rng=Random(1), vote_rng=Random(name), now=self.now,
            )
            for name in NAMES
        }  # fmt: skip
        for name, other in itertools.permutations(NAMES, 2):
            self.feed(name, LinkMade(other))
        for _ in range(200):
            self.tick()

    def tick(self) -> None:
        """Let 50 ms pass."""
        self.now += 0.05
        for name in NAMES:
            self.feed(name, Tick(int(self.now * 1e6)))
        self.settle()

    def owned_by(self, name: str, links: Sequence[str]) -> list[str]:
        """Return those of the links that a node owns."""
        core = self.replicas[name].core
        return [link for link in links if owner_of(core, core.slot_of(link)) == name]

    def put(self, name: str, links: Sequence[str]) -> None:
        """Have clients of a node put documents, all in one turn, and wait for the answers."""
        self.now += 0.001
        for link in links:
            operation = Operation(
                verb="PUT", link=link, body=BODY, creates=True, signature=b"s" * 16
            )
            self.feed(name, Requested(next(self._numbers), operation, self.now + 10))
        self.settle()

    def feed(self, name: str, event: Event) -> None:
        """Step a replica; what it stores is durable at the end of the turn."""
        begun = time.process_time()
        replica, events = self.replicas[name], [event]
        while events:
            for effect in replica.step(events.pop(0), self.now):
                match effect:
                    case Send(to, message):
                        self._outbox.setdefault((name, to), []).append(message)
                    case Persist(token, _):
                        events.append(Persisted(token))
                    case Read(token, _):
                        events.append(QueriesAnswered([(token, [])]))
                    case Give():
                        self.answered += 1
                    case _:
                        pass
        self.spent_s[name] += time.process_time() - begun

    def settle(self) -> None:
        """End turns and carry frames until no replica sends any more."""
        while True:
            for name, replica in self.replicas.items():
                if replica.wants_turn:
                    self.feed(name, TurnEnded())
            outbox, self._outbox = self._outbox, {}
            if not outbox:
                return
            packed = {name: Packed() for name in NAMES}
            for (sender, to), messages in outbox.items():
                self._carry(sender, to, messages, packed[sender])

    def _carry(self, sender: str, to: str, messages: Sequence[Message], packed: Packed) -> None:
        begun = time.process_time()
        frame = packed.frame(1, messages)
        carried = time.process_time()
        configuration, received = unpack_frame(memoryview(frame)[4:])
        self.spent_s[sender] += carried - begun
        self.spent_s[to] += time.process_time() - carried
        for message in received:
            self.feed(to, Received(sender, message, configuration))


def measure(group: Group, links: Sequence[str], turn: int, puts: int) -> tuple[float, float]:
    """Return microseconds a PUT, at the owner and at both replicas, in turns of `turn` PUTs."""
    order = Random(turn)
    answered = group.answered
    before = dict(group.spent_s)
    turns = max(1, puts // turn)
    for number in range(turns):
        group.put("n1", order.sample(links, turn))
        if number % 50 == 49:
            group.tick()
    assert group.answered - answered == turns * turn
    spent = {name: group.spent_s[name] - before[name] for name in NAMES}
    owner = spent.pop("n1")
    return owner / (turns * turn) * 1e6, sum(spent.values()) / (turns * turn) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.steps", description=__doc__)
    parser.add_argument("--puts", type=int, default=3000, help="in a repetition")
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    group = Group()
    links = group.owned_by("n1", [f"/bench/{number}" for number in range(LINKS)])
    group.put("n1", links)
    gc.collect()
    gc.freeze()
    print(f"{'PUTs a turn':>12} {'owner':>8} {'replicas':>8} {'all':>8}   us a PUT")
    for turn in TURNS:
        found = [measure(group, links, turn, options.puts) for _ in range(options.repetitions)]
        owner, replicas = min(found, key=sum)
        print(f"{turn:>12} {owner:>8.1f} {replicas:>8.1f} {owner + replicas:>8.1f}")


if __name__ == "__main__":
    main()
