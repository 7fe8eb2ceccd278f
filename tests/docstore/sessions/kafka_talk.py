"""Kafka clients that talk to the coordinator of a group, one request at a time. S is 6 s."""

from typing import Any

from docstore.model import json
from docstore.services.group_document import GROUPS, GroupState, group_of
from docstore.sessions.kafka_messages import BeatAsked, CommitAsked, JoinAsked, Leaving, SyncAsked
from tests.docstore.sessions.group import Group as Nodes

LINK = f"{GROUPS}/etl"
RANGE = (("range", b"topics"),)
LONG_S = 400.0


class KafkaTalk:
    """A few nodes that keep a group, and requests of Kafka clients to them."""

    def __init__(self, **parts: int) -> None:
        self.nodes = Nodes()
        self.nodes.put(LINK, GroupState(parts=parts or {"t": 2}).state())

    def _call(self, verb: str, said: Any, at: str) -> int:
        return self.nodes.call(LINK, f"kafka-{verb}", said, at=at, timeout_s=LONG_S)

    def answer(self, call: int) -> dict[str, Any]:
        """Return the answer to a call."""
        reply = self.nodes.reply(call)
        assert not reply.code, reply
        found: dict[str, Any] = reply.result
        return found

    def code(self, call: int) -> str:
        return str(self.answer(call)["code"])

    def is_waiting(self, call: int) -> bool:
        return call not in self.nodes.replies

    def ask_join(
        self,
        member: str = "",
        *,
        instance: str = "",
        protocols: Any = RANGE,
        kind: str = "consumer",
        session_ms: int = 6_000,
        rebalance_ms: int = 20_000,
        needs_id: bool = False,
        at: str = "",
    ) -> int:
        said = JoinAsked(
            member, instance, "rdkafka", "127.0.0.1", session_ms, rebalance_ms, kind, protocols,
            needs_id,
        )  # fmt: skip
        return self._call("join", list(said), at)

    def ask_sync(
        self, joined: dict[str, Any], assigned: dict[str, str] | None = None, at: str = ""
    ) -> int:
        """Ask for an assignment; the leader gives each partition of `assigned` to a member."""
        given = assigned or {}
        said = SyncAsked(
            joined["member"], "", joined["generation"], joined["type"], joined["protocol"],
            {member: member.encode() for member in given.values()}, given,
            {"t": 2} if given else {},
        )  # fmt: skip
        return self._call("sync", list(said), at)

    def beat(self, member: str, generation: int, *, instance: str = "", at: str = "") -> str:
        return self.code(self.ask_beat(member, generation, instance=instance, at=at))

    def ask_beat(self, member: str, generation: int, *, instance: str = "", at: str = "") -> int:
        return self._call("beat", list(BeatAsked(member, instance, generation)), at)

    def leave(self, *members: str, instance: str = "") -> list[str]:
        said = [list(Leaving(each, instance)) for each in members]
        codes: list[str] = self.answer(self._call("leave", said, ""))["codes"]
        return codes

    def commit(
        self, member: str = "", generation: int = -1, at: str = "", **parts: int
    ) -> dict[str, Any]:
        """Ask for the token of a commit."""
        said = CommitAsked(member, "", generation, parts or {"t": 2})
        return self.answer(self._call("commit", list(said), at))

    def described(self) -> dict[str, Any]:
        return self.answer(self._call("describe", None, ""))

    @property
    def group(self) -> GroupState:
        return group_of(json.load(self.nodes.documents[LINK].state))

    @property
    def version(self) -> int:
        return self.nodes.documents[LINK].version

    # Whole rounds

    def settled(self, number: int = 2) -> list[dict[str, Any]]:
        """Return the answers to the joins of a new stable group, the leader's first."""
        calls = [self.ask_join() for _ in range(number)]
        self.nodes.run(0.6)
        return self.synced([self.answer(each) for each in calls])

    def synced(self, joined: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Let the members of a generation sync, with a partition for each of two."""
        joined = sorted(joined, key=lambda each: each["member"] != each["leader"])
        ids = [each["member"] for each in joined]
        shares = {f"t/{number}": ids[number % len(ids)] for number in range(2)}
        calls = [self.ask_sync(joined[0], shares), *(self.ask_sync(each) for each in joined[1:])]
        assert {self.code(each) for each in calls} == {""}
        return joined

    def keep(self, seconds: float, *joined: dict[str, Any]) -> None:
        """Let time pass while members send heartbeats."""
        for _ in range(round(seconds)):
            self.nodes.run(1.0)
            for each in joined:
                self.ask_beat(each["member"], each["generation"])
