"""Actors that take part in a group as Kafka clients do: their leader assigns the partitions."""

from collections.abc import Callable
from typing import Any

from docstore.model import json
from docstore.model.operation import ANY_TOMBSTONE, Answer, Conditions, Operation
from docstore.services.group_document import GROUPS, GroupState
from docstore.services.offsets import nothing_read, offset_link
from docstore.sessions.kafka_messages import BeatAsked, CommitAsked, JoinAsked, Leaving, SyncAsked
from tests.sim.actors import Actor, Query, Sent, is_settled, result_of
from tests.sim.sessions_shapes import Shape

LINK = f"{GROUPS}/k"
AGAIN_S = 0.2
JOIN_S = 8.0

Told = Callable[[dict[str, Any]], None]


class KafkaMember(Actor):
    """One process that reads a topic in a group; it leaves, and comes back, now and then."""

    def __init__(self, name: str, arena: Any, shape: Shape) -> None:
        super().__init__(name, arena)
        self.shape = shape
        self.id = ""
        self.generation = -1
        self._round = 0
        """Number of the assignment: work of an earlier one is dropped."""
        self._joining = False

    # Lives

    def begin(self) -> None:
        """Create the group unless it exists, and join it."""
        self.id, self.generation, self._joining = "", -1, False
        group = GroupState(parts={"t": self.shape.partitions})
        operation = Operation(
            verb="POST", link=LINK, body=group.pack(), recreate_below=ANY_TOMBSTONE
        )
        self.submit(operation, self._there)

    def _there(self, answer: Answer | None) -> None:
        if not is_settled(answer):
            self.later(AGAIN_S, self.begin)
            return
        self._join()
        self._beat()
        if self.rng.random() < 0.6 and self.world.now < self.shape.faults_s:
            self.later(0.5 + self.rng.random() * self.shape.leaves_s, self._leave)

    def _leave(self) -> None:
        self._round += 1
        said = [list(Leaving(self.id, ""))]
        self._call("leave", said, lambda told: None)
        self.id, self.generation = "", -1
        self.later(self.rng.random() * 2.0, self._join)

    def _call(self, verb: str, said: Any, then: Told, timeout_s: float = 2.0) -> None:
        """Ask the coordinator; `then` gets {} if it does not answer."""

        def told(reply: Any, sent: Sent) -> None:
            then(result_of(reply) or {})

        self.ask(Query(LINK, f"kafka-{verb}", said, timeout_s), told, link=LINK)

    # Generations

    def _join(self) -> None:
        if self._joining:
            return
        self._joining = True
        session_ms = self.shape.ttl_ms
        said = JoinAsked(
            self.id, "", "sim", "host", session_ms, session_ms * 2, "consumer",
            [("range", b"t")], self.rng.random() < 0.5,
        )  # fmt: skip
        self._call("join", list(said), self._joined, JOIN_S)

    def _joined(self, told: dict[str, Any]) -> None:
        self._joining = False
        code = told.get("code")
        if code == "":
            self._round += 1
            self.id, self.generation = told["member"], told["generation"]
            self._sync(self._round, told)
            return
        if code == "member-id-required":
            self.id = told["member"]
        elif code is not None and code != "rebalance-in-progress":
            self.id = ""
        self.later(AGAIN_S * (code != "member-id-required"), self._join)

    def _sync(self, number: int, joined: dict[str, Any]) -> None:
        members = [each[0] for each in joined["members"]]
        shares = {
            f"t/{each}": members[each % len(members)]
            for each in range(self.shape.partitions)
            if members
        }
        given = {
            member: ",".join(each for each, its in shares.items() if its == member).encode()
            for member in members
        }
        said = SyncAsked(
            self.id, "", self.generation, "consumer", "range", given, shares,
            {"t": self.shape.partitions},
        )  # fmt: skip

        def told(found: dict[str, Any]) -> None:
            if number != self._round:
                return
            if found.get("code") != "":
                self.later(AGAIN_S, self._join)
                return
            self.arena.watch.count("kafka assignments")
            for partition in filter(None, found["assignment"].decode().split(",")):
                self._fetch(number, partition)

        self._call("sync", list(said), told, JOIN_S)

    def _beat(self) -> None:
        self.later(self.shape.ttl_ms / 1000 / self.shape.beats, self._beat)
        if self.generation < 0 or self._joining:
            return
        said, number = BeatAsked(self.id, "", self.generation), self._round

        def told(found: dict[str, Any]) -> None:
            code = found.get("code", "")
            if code and number == self._round:
                # It goes on with its work until it has joined the next generation.
                if code == "unknown-member":
                    self.id = ""
                self._join()

        self._call("beat", list(said), told)

    # Offsets

    def _fetch(self, number: int, partition: str) -> None:
        """Claim an offset with the version of the group: the answer is where to begin."""
        if number != self._round:
            return

        def read(answer: Answer | None) -> None:
            if answer is None or not answer.is_success or answer.row is None:
                self.later(AGAIN_S, self._fetch, number, partition)
                return
            self._claim(number, partition, answer.row.version)

        self.submit(Operation(verb="GET", link=LINK), read)

    def _claim(self, number: int, partition: str, token: int) -> None:
        def told(answer: Answer | None) -> None:
            if answer is None or not answer.is_success or answer.row is None:
                self.later(AGAIN_S, self._fetch, number, partition)
            elif number == self._round:
                offset = json.load(answer.row.state)["offset"]
                self.arena.watch.of_groups.claimed(
                    offset_link(LINK, partition), self.generation, offset
                )
                self._commit(number, partition, offset + 1)

        self._change(partition, {"kind": "ClaimRequest", "token": token}, told)

    def _commit(self, number: int, partition: str, offset: int) -> None:
        """Ask for a token, and commit with it, again and again."""
        if number != self._round:
            return
        generation, asked_at = self.generation, self.world.now
        said = CommitAsked(self.id, "", generation, {"t": self.shape.partitions})

        def granted(found: dict[str, Any]) -> None:
            if found.get("code") == "":
                self.arena.watch.of_groups.granted(LINK, generation, asked_at)
                change = {"kind": "CommitRequest", "token": found["token"], "offset": offset}
                # The coordinator may be paused between the two.
                slow = self.rng.random() < self.shape.slowpokes
                self.later(self.rng.random() * 2.0 * slow, self._change, partition, change, written)
            elif not found.get("code"):
                self.later(AGAIN_S, self._commit, number, partition, offset)

        def written(answer: Answer | None) -> None:
            is_done = answer is not None and answer.is_success
            if is_done:
                link = offset_link(LINK, partition)
                self.arena.watch.of_groups.committed(link, generation, offset)
            if answer is not None and answer.code in ("fenced", "not-claimed"):
                self._fetch(number, partition)
            else:
                after_s = 0.1 + self.rng.random() * 0.5
                self.later(after_s, self._commit, number, partition, offset + is_done)

        self._call("commit", list(said), granted)

    def _change(
        self, partition: str, change: dict[str, Any], then: Callable[[Answer | None], None]
    ) -> None:
        link = offset_link(LINK, partition)
        operation = Operation(verb="PATCH", link=link, body=json.dump(change), media="handler")

        def told(answer: Answer | None) -> None:
            if answer is None or answer.status != 404:
                then(answer)
                return
            state, absent = json.dump(nothing_read()), Conditions(none_match="*")
            made = Operation(verb="PUT", link=link, body=state, conditions=absent, creates=True)
            self.submit(made, lambda _: then(None))

        self.submit(operation, told)
