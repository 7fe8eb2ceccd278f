"""The streams of a group, as the clients of one node use them, wherever a partition is led.

Records go through the machine, which forwards requests that must not be executed twice. Fetches and
figures are safe to repeat and go to other nodes by `runtime/links/rpc.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from docstore.errors import Unavailable
from docstore.machines.view import MachineView
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.model.streams_batch import is_of, place_of
from docstore.runtime.links.rpc import Rpc
from docstore.runtime.stepping import clock, unless_ended
from docstore.runtime.streams_driver import StreamsDriver
from docstore.runtime.trace.context import TRACEPARENT
from docstore.streams import events
from docstore.streams.effects import Begun, Deleted, Figures, Led, Outcome, Problem, Records
from docstore.streams.replica_set import STREAMS, incarnation_of, is_topic
from docstore.streams.requests import NoSuchPartition, NoSuchTopic, ProduceRequest, ReadRequest
from docstore.streams.topic import Topic, topic_of
from docstore.wire.requests import CommandPartition, DeleteRecords, FetchRecords, ReadFigures
from docstore.wire.streams_messages import Produced

TOPIC_KNOWN_S = 5.0
"""Seconds for which a topic's document stays in the cache: a new partition may be seen that late.
"""
TOPIC_ASKED_S = 0.5
"""Seconds to wait for a topic's document where the cached one would do."""
TOPICS_KNOWN_MAX = 10_000
WAIT_AT_ONCE_S = 5.0
"""Seconds that a leader lets one fetch of another node wait: that node may have died meanwhile."""
AGAIN_S = 0.02
FIGURES_S = 1.0
"""Seconds to wait for the figures of one leader."""
NOT_YET = "not-committed-yet"
STOPPING = Problem(503, "stopping", "this node stops: ask another one")
NOT_SURE = frozenset({"no-leader", "not-leader"})
"""Codes of a refused read that may be retried at the next leader."""
MAY_RETRY = NOT_SURE | {"undecided"}
"""Codes of a refused deletion of records that may be retried: a repetition does no harm."""
OUTCOMES: Mapping[str, Callable[..., Outcome]] = {
    "records": Records, "problem": Problem, "begun": Begun, "deleted": Deleted
}  # fmt: skip
"""Kind of a plain outcome -> its class."""


class StreamBackend:
    """The streams of the group, as the HTTP pages of one node use them."""

    def __init__(
        self,
        me: str,
        driver: StreamsDriver,
        view: MachineView,
        rpc: Rpc,
        submit: Callable[[Operation, float], Awaitable[Answer]],
    ) -> None:
        """submit: carries an operation on a document to its owner."""
        self._me = me
        self._driver = driver
        self._view = view
        self._rpc = rpc
        self._submit = submit
        self._topics: dict[str, tuple[Topic, float]] = {}
        self._ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        rpc.serve(FetchRecords, self._fetch_for)
        rpc.serve(ReadFigures, self._figures_for)
        rpc.serve(CommandPartition, self._command_for)
        rpc.serve(DeleteRecords, self._delete_for)

    # Topics

    def known_topic(self, name: str) -> Topic | None:
        """Return a topic from the cache; the last known one while the group has no majority."""
        known = self._topics.get(name)
        is_known = known is not None and (clock() < known[1] or self._view.lacks_quorum)
        return known[0] if known is not None and is_known else None

    async def topic_or_last(self, name: str, partition: int | None, timeout_s: float) -> Topic:
        """Return a topic, or the last known one while its owner does not answer.

        partition: the number that the caller names. If this node never read the topic, it assumes
        that the partition exists, since the leader knows. Raises NoSuchTopic, and Unavailable if
        the number of partitions is needed and was never read.
        """
        last = self._topics.get(name)
        is_needed = last is None and partition is None
        try:
            return await self.topic(name, timeout_s if is_needed else TOPIC_ASKED_S)
        except Unavailable:
            if last is not None:
                self._topics[name] = (last[0], clock() + TOPIC_KNOWN_S)
                return last[0]
            if partition is None:
                raise
            return Topic(name=name, incarnation="", partitions=partition + 1)

    async def topic(self, name: str, timeout_s: float) -> Topic:
        """Return a topic from its document. Raises NoSuchTopic, Unavailable."""
        link = f"{STREAMS}/{name}"
        if not is_topic(link):
            raise NoSuchTopic(f"there is no topic {name}")
        answer = await self._submit(Operation(verb="GET", link=link), timeout_s)
        if answer.status == 404:
            self._topics.pop(name, None)
            raise NoSuchTopic(f"there is no topic {name}")
        if answer.row is None or not answer.is_success:
            raise Unavailable(f"topic {name} could not be read: {answer.detail}")
        return self._learn(name, answer.row)

    def _learn(self, name: str, row: Row) -> Topic:
        if len(self._topics) >= TOPICS_KNOWN_MAX:
            del self._topics[next(iter(self._topics))]
        topic = topic_of(json.load(row.state))
        self._topics[name] = (topic, clock() + TOPIC_KNOWN_S)
        return topic

    def noticed(self, row: Row) -> None:
        """Expire the cached topic of a decided row."""
        factory, _, name = row.link.rpartition("/")
        if factory == STREAMS and (known := self._topics.pop(name, None)) and not row.deleted:
            # Keep the topic, in case the document cannot be read.
            self._topics[name] = (known[0], 0.0)

    @property
    def members(self) -> int:
        return len(self._view.members)

    # Records

    def produce(
        self, link: str, sent: ProduceRequest, timeout_s: float
    ) -> "asyncio.Future[Produced | Problem]":
        """Submit records; the outcome is there by the deadline at the latest."""
        asked = events.ProduceAsked(
            self._driver.next_request(), link, sent.acks, clock() + timeout_s,
            sent.producer, sent.flags, sent.records, sent.body,
        )  # fmt: skip
        return self._driver.produce(asked)

    async def fetch(
        self, link: str, wanted: ReadRequest, *, wait_s: float, timeout_s: float, of: str = ""
    ) -> Records | Problem:
        """Return records of a partition from its leader; none once `wait_s` is over.

        timeout_s: how long to look for a leader, and to wait until the position in the token is
        committed. of: the incarnation to which the position belongs, "" for the present one.
        """
        now = clock()
        until, give_up = now + wait_s, now + timeout_s
        refresh = False
        while True:
            left_s = min(max(0.0, until - clock()), WAIT_AT_ONCE_S)
            once = self._fetch_once(link, wanted, left_s, give_up, refresh=refresh)
            outcome = await (unless_ended(self._ends, once) if left_s else once) or STOPPING
            if of and (there := await self._incarnation(link, outcome, give_up)) not in ("", of):
                return _recreated(of, there)
            if isinstance(outcome, Records):
                of = outcome.incarnation
                if outcome.until > outcome.offset or clock() >= until:
                    return outcome
                wanted = wanted._replace(origin=("offset", outcome.offset))
                refresh = False
            elif outcome.code == NOT_YET and clock() + AGAIN_S < give_up:
                await self._until_committed(link, wanted, give_up)
            elif outcome.code not in NOT_SURE or clock() + AGAIN_S >= give_up:
                return outcome
            else:
                refresh = True
                await asyncio.sleep(AGAIN_S)

    async def _incarnation(self, link: str, outcome: Records | Problem, deadline: float) -> str:
        if isinstance(outcome, Records):
            return outcome.incarnation
        if outcome.status not in (410, 416):
            return ""
        led = await self.leader(link, deadline, refresh=True)
        return incarnation_of(led.name) if isinstance(led, Led) else ""

    async def _until_committed(self, link: str, wanted: ReadRequest, give_up: float) -> None:
        """Wait until the position of the token is committed, `WAIT_AT_ONCE_S` at most."""
        first = wanted._replace(origin=("beginning", 0), bytes_max=1)
        wait_s = min(give_up - clock(), WAIT_AT_ONCE_S)
        once = self._fetch_once(link, first, wait_s, give_up, refresh=False)
        outcome = await unless_ended(self._ends, once)
        if not isinstance(outcome, Records):  # The next fetch returns the problem.
            await asyncio.sleep(AGAIN_S)

    def end(self) -> None:
        """Answer the waiting fetches 503, so that their clients go to another node."""
        if not self._ends.done():
            self._ends.set_result(None)

    async def _fetch_once(
        self, link: str, wanted: ReadRequest, wait_s: float, give_up: float, *, refresh: bool
    ) -> Records | Problem:
        if wanted.stale:
            outcome = await self.fetch_here(link, wanted, wait_s)
            if isinstance(outcome, Records) or outcome.code not in NOT_SURE:
                return outcome
        led = await self.leader(link, give_up, refresh=refresh)
        if isinstance(led, Problem):
            return led
        if led.leader in ("", self._me):
            return await self.fetch_here(link, wanted._replace(stale=False), wait_s)
        wanted = wanted._replace(stale=False, trace=TRACEPARENT.get())
        asked = FetchRecords(link, wait_s, *wanted)
        try:
            found = await self._rpc.call(led.leader, asked, wait_s + WAIT_AT_ONCE_S)
        except Unavailable as error:
            return Problem(503, "no-leader", str(error))
        fetched = _outcome_of(found)
        assert isinstance(fetched, Records | Problem)
        if isinstance(fetched, Records):
            fetched.incarnation = incarnation_of(led.name)
            if fetched.batches and not is_of(fetched.batches[0], place_of(led.name)):
                return Problem(503, "not-leader", "the topic was recreated and has another leader")
        return fetched

    async def leader(self, link: str, deadline: float, *, refresh: bool) -> Led | Problem:
        """Return the leader of a partition, as far as this node knows."""
        asked = events.LeaderAsked(self._driver.next_request(), link, deadline, refresh)
        outcome = await self._driver.request(asked)
        assert isinstance(outcome, Led | Problem)
        return outcome

    def known_leader(self, link: str) -> str:
        """Return the leader of a partition as far as this node knows, "" for none."""
        return self._driver.machine.directory.leader(link)

    async def news(self, positions: Sequence[tuple[str, int]], wait_s: float) -> None:
        """Return when a partition of this node has records from an offset on, or `wait_s` is over.

        positions: (link, offset). Returns at once if this node does not lead one of them.
        """
        asked = events.NewsAsked(self._driver.next_request(), positions, clock() + wait_s)
        try:
            await unless_ended(self._ends, self._driver.request(asked))
        finally:
            self._driver.feed(events.NewsForgotten(asked.request))

    async def fetch_here(self, link: str, wanted: ReadRequest, wait_s: float) -> Records | Problem:
        """Return records of a partition that this node holds; wait for them until `wait_s`."""
        asked = events.FetchAsked(
            self._driver.next_request(), link, wanted.origin, wanted.isolation, wanted.bytes_max,
            clock() + wait_s if wait_s > 0 else 0.0, wanted.token, wanted.stale, wanted.trace,
        )  # fmt: skip
        outcome = await self._driver.request(asked)
        assert isinstance(outcome, Records | Problem)
        return outcome

    async def _fetch_for(self, asked: FetchRecords) -> tuple[Any, ...]:
        kind, where = asked.origin
        wanted = ReadRequest((kind, where), *asked.packed()[3:])
        return _plain(await self.fetch_here(asked.link, wanted, asked.wait_s))

    # Deletion of records

    async def delete_records(self, link: str, before: int, timeout_s: float) -> Deleted | Problem:
        """Delete the records of a partition below an offset; -1 for all that are committed.

        May be repeated. A problem is `unknown` if an attempt may still have deleted records.
        """
        deadline = clock() + timeout_s
        refresh = is_unknown = False
        while True:
            led = await self.leader(link, deadline, refresh=refresh)
            outcome: Outcome = led
            if isinstance(led, Led):
                wait_s = min(deadline - clock(), WAIT_AT_ONCE_S)
                asked = DeleteRecords(link, before, wait_s)
                try:
                    call = self._rpc.call(led.leader or self._me, asked, wait_s + AGAIN_S)
                    outcome = _outcome_of(await call)
                except Unavailable as error:
                    outcome = Problem(503, "no-leader", str(error), unknown=True)
            if isinstance(outcome, Deleted):
                return outcome
            assert isinstance(outcome, Problem)
            is_unknown |= outcome.unknown
            if outcome.code not in MAY_RETRY or clock() + AGAIN_S >= deadline:
                return outcome if not is_unknown else _undecided(outcome.detail)
            refresh = True
            await asyncio.sleep(AGAIN_S)

    async def _delete_for(self, asked: DeleteRecords) -> tuple[Any, ...]:
        number, deadline = self._driver.next_request(), clock() + asked.wait_s
        event = events.DeletionAsked(number, asked.link, asked.before, deadline)
        return _plain(await self._driver.request(event))

    # Figures and commands

    async def figures(self, links: Sequence[str]) -> Mapping[str, Mapping[str, object]]:
        """Return link -> live figures of the partitions whose leaders answer."""
        found: dict[str, Mapping[str, Any]] = {}
        members = [
            each
            for each in self._view.members
            if self._rpc.reaches(each) and self._view.is_alive(each)
        ]
        asking = (self._figures_of(member, links) for member in members)
        for figures in await asyncio.gather(*asking):
            for link, each in figures.items():
                if link not in found or found[link]["epoch"] < each["epoch"]:
                    # The other node does not know yet that it is no longer the leader.
                    found[link] = each
        return found

    async def _figures_of(self, member: str, links: Sequence[str]) -> Mapping[str, Any]:
        try:
            found = await self._rpc.call(member, ReadFigures(tuple(links)), FIGURES_S)
        except Unavailable:
            return {}
        return dict(found)

    async def _figures_for(self, asked: ReadFigures) -> Mapping[str, Mapping[str, object]]:
        number = self._driver.next_request()
        outcome = await self._driver.request(events.FiguresAsked(number, asked.links))
        assert isinstance(outcome, Figures)
        return outcome.partitions

    async def command(
        self, link: str, command: tuple[str, object], timeout_s: float
    ) -> Begun | Problem:
        deadline = clock() + timeout_s
        while True:
            owner = self._view.owner_of(link)
            try:
                if not owner:
                    raise Unavailable("the partition's document has no owner now")
                request = CommandPartition(link, command)
                found = await self._rpc.call(owner, request, deadline - clock())
            except Unavailable as error:
                found = _plain(Problem(503, "no-controller", str(error)))
            outcome = _outcome_of(found)
            assert isinstance(outcome, Begun | Problem)
            is_refused = isinstance(outcome, Problem) and outcome.code == "no-controller"
            if not is_refused or clock() + AGAIN_S >= deadline:
                return outcome
            await asyncio.sleep(AGAIN_S)

    async def _command_for(self, asked: CommandPartition) -> tuple[Any, ...]:
        kind, value = asked.command
        event = events.CommandAsked(self._driver.next_request(), asked.link, (kind, value))
        return _plain(await self._driver.request(event))


async def topic_with(
    streams: StreamBackend, name: str, partition: int | None, timeout_s: float
) -> Topic:
    """Return a topic that has this partition: the cached one, or as it is now.

    Raises NoSuchTopic, NoSuchPartition, and Unavailable as `topic_or_last`.
    """
    topic = streams.known_topic(name) or await streams.topic_or_last(name, partition, timeout_s)
    if partition is not None and partition >= topic.partitions:
        topic = await streams.topic(name, timeout_s)  # There may be more partitions by now.
    if partition is not None and not 0 <= partition < topic.partitions:
        raise NoSuchPartition(
            f"partition must be below {topic.partitions} in {name}; got {partition}"
        )
    return topic


def _plain(outcome: Outcome) -> tuple[Any, ...]:
    match outcome:
        case Records():
            return (
                "records", outcome.batches, outcome.offset, outcome.until, outcome.high,
                outcome.end, outcome.start, outcome.epoch, outcome.stale_us, outcome.owner,
            )  # fmt: skip
        case Problem():
            more = dict(outcome.more)
            return "problem", outcome.status, outcome.code, outcome.detail, outcome.unknown, more
        case Begun():
            return ("begun",)
        case Deleted(start):
            return "deleted", start
        case _:
            raise AssertionError(outcome)


def _outcome_of(found: Any) -> Outcome:
    kind, *fields = found
    outcome: Outcome = OUTCOMES[kind](*fields)
    return outcome


def _recreated(of: str, there: str) -> Problem:
    """Return the refusal of a position in a topic that was deleted and created again."""
    detail = (
        f"the position is of incarnation {of} of the topic, which was deleted; the topic of this"
        f" name has incarnation {there} now, and offsets of its own from 0 on"
    )
    return Problem(410, "topic-recreated", detail, more={"incarnation": there})


def _undecided(detail: str) -> Problem:
    return Problem(504, "undecided", detail, unknown=True)
