"""Driver of `sessions/member.py`: time, requests, answers and events of one member of a group.

A request is sent once, to one node, and stamped just before; if that node does not answer, the
next request goes to another node.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, assert_never
from urllib.parse import quote

import orjson

from docstore.client.boot_clock import boot_clock
from docstore.client.errors import ClientError, Differs, RequestFailed, check_same
from docstore.client.requests import Requests
from docstore.ownership.by_induction import Event, Revoked
from docstore.services.group_document import Settings
from docstore.sessions import group_messages as messages
from docstore.sessions import member_events as events
from docstore.sessions.member import GroupMember

HEADERS = {"Content-Type": "application/json"}
LOOK_S = 1.0
"""Longest sleep: while the machine is suspended, the clock of proofs goes on, the loop's stops."""
WAIT_S = 20
ANSWER_S = 2.0
JOIN_S = 5.0
LEAVE_S = 5.0
"""Seconds that a leaving process waits for the answer, in addition to the time of its callbacks."""

UNSEEN_MAX = 1_000
"""Events kept for a reader that may begin later."""


class EventQueue:
    """Events of a member in order, and the revoked partitions that are not released yet."""

    def __init__(self, member: GroupMember, finish: Callable[[str], None]) -> None:
        """finish: called with a revoked partition once its event was handled."""
        self._member = member
        self._finish = finish
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self.reader: asyncio.Task[Any] | None = None
        """The task that handles events: the last one that iterated, or that calls back."""
        self.unfinished: set[str] = set()
        """Revoked partitions whose event is not handled."""
        self.happened = asyncio.Event()
        """Set, and replaced by a new one, at each event."""

    def put(self, event: Event) -> None:
        self._events.put_nowait(event)
        if isinstance(event, Revoked):
            self.unfinished.add(self._member.name_of(event.partition))
        if self.reader is None:
            asyncio.get_running_loop().call_soon(self._handled, event)
            while self._events.qsize() > UNSEEN_MAX:
                self._events.get_nowait()
        self.happened.set()
        self.happened = asyncio.Event()

    def end(self) -> None:
        self.happened.set()
        self._events.put_nowait(None)

    async def each(self) -> AsyncIterator[Event]:
        """Yield events until the end; an event is handled when the next one is requested."""
        self.reader = asyncio.current_task()
        while (event := await self._events.get()) is not None:
            yield event
            self.reader = asyncio.current_task()
            self._handled(event)

    def _handled(self, event: Event) -> None:
        if isinstance(event, Revoked):
            partition = self._member.name_of(event.partition)
            self.unfinished.discard(partition)
            self._finish(partition)


class MemberDriver:
    """Runs the machine of one member: `watch` in a task, and a task for each request."""

    def __init__(
        self,
        client: Requests,
        link: str,
        asked: Mapping[str, Any],
        member: GroupMember,
        end: Callable[[str], None],
    ) -> None:
        """link, asked: see `GroupMembership`. end: called with a reason when the machine ends."""
        self.link = link
        self.member = member
        self.clock = boot_clock()
        self.events = EventQueue(member, lambda partition: self.feed(events.Finished(partition)))
        self.is_in = asyncio.Event()
        """Set once this process is a member, or is certain never to be."""
        self.ended = asyncio.Event()
        self.refused: ClientError | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self._client = client
        self._asked = asked
        self._end = end
        self._url = 0
        self._woken = asyncio.Event()

    def feed(self, event: events.MemberEvent) -> None:
        for effect in self.member.step(event, self.clock()):
            match effect:
                case events.SendRequest():
                    self.spawn(self._say(effect))
                case events.Report(happening):
                    self.events.put(happening)
                case events.Ended(why):
                    self._end(why)
                case _:
                    assert_never(effect)
        self._woken.set()

    async def watch(self) -> None:
        """Step the machine whenever a timer of it is due."""
        while not self.ended.is_set():
            self._woken.clear()
            self.feed(events.Tick())
            self._woken.clear()
            now = self.clock()
            pause_s = min(LOOK_S, max(0.0, self.member.next_at(now) - now))
            try:
                async with asyncio.timeout(pause_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def insist_on(self, factory: str, wanted: dict[str, Any]) -> None:
        """Create the group's document unless it exists. Raises RequestFailed, Differs."""
        try:
            page = await self._client.json("GET", quote(self.link))
        except RequestFailed as error:
            if error.status != 404:
                raise
            try:
                await self._client.json("POST", factory, wanted)
            except RequestFailed as refused:
                if refused.status != 409:
                    raise  # 409: another process has created it; the join returns its settings.
        else:
            parts = {"": page["partitions"]} if "partitions" in page else page["topics"]
            check_same(self.link, self._asked, _settings(page["settings"], parts))

    async def _say(self, said: events.SendRequest) -> None:
        """Send a request once; step the machine with its answer and the time of sending."""
        method, path, body, headers, timeout_s = _http(
            self.link, self.member.settings, said.request
        )
        urls = self._client.urls
        url = self._url % len(urls)
        headers = {**HEADERS, "Docstore-Timeout-Ms": str(int(timeout_s * 1000)), **headers}
        raw = None if body is None else orjson.dumps(body)
        reply: messages.Reply | None = None
        stamp = self.clock()
        try:
            _, _, content = await self._client.once(
                urls[url], method, path, raw, headers, timeout_s=timeout_s
            )
            reply = messages.read_shown(orjson.loads(content))
        except RequestFailed as error:
            reply = _refusal(error)
            if isinstance(reply, messages.Refused):
                self.refused = self.refused or error
        except ClientError:
            reply = None
        if reply is None and url == self._url % len(urls):
            self._url += 1  # That node does not answer or cannot: ask the next one.
        self.feed(events.Answered(said.number, reply, stamp))
        if isinstance(reply, messages.Joined):
            self._joined(reply)

    def _joined(self, reply: messages.Joined) -> None:
        """Record the join; or leave a group that was recreated with other settings meanwhile."""
        try:
            check_same(self.link, self._asked, _settings(reply.settings, reply.parts))
        except Differs as error:
            self.refused = error
            self.feed(events.LeaveAsked())
        else:
            self.is_in.set()


def _http(
    link: str, settings: Settings | None, request: messages.Request
) -> tuple[str, str, Any, dict[str, str], float]:
    """Return method, path, body, headers and patience of a request to a group's coordinator."""
    pulse_s = JOIN_S if settings is None else settings.session_ms / 4000
    path = f"{quote(link)}/members"
    one = f"{path}/{quote(request.member, safe='')}"
    match request:
        case messages.Join(member, about, former):
            body: dict[str, Any] = {"member": member, "former": former, **about._asdict()}
            del body["since"]
            return "POST", path, body, {}, JOIN_S
        case messages.Pulse(_, number, generation, listing, owned, answered):
            body = {"kind": "HeartbeatRequest", "number": number, "answered": answered}
            body |= {"generation": generation, "listing": listing}
            body |= {} if owned is None else {"owned": list(owned)}
            return "PATCH", one, body, {}, pulse_s
        case messages.Wait(_, generation, listing):
            body = {"kind": "WaitRequest", "generation": generation, "listing": listing}
            return "PATCH", one, body, {"Prefer": f"wait={WAIT_S}"}, WAIT_S + ANSWER_S
        case messages.Leave(_, drain):
            return "DELETE", one + ("?drain" if drain else ""), None, {}, LEAVE_S
        case _:
            assert_never(request)


def _settings(settings: Mapping[str, Any], parts: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of a group as named in the request that creates it."""
    what = {"partitions": parts[""]} if "" in parts else {"topics": sorted(parts)}
    return {**settings, **what}


def _refusal(error: RequestFailed) -> messages.Reply | None:
    """Return the reply that a problem stands for, None if it is not about the member."""
    if error.status >= 500 or error.status == 429:
        return None
    if error.code in ("unknown-member", "fenced"):
        return messages.Fenced("unknown" if error.code == "unknown-member" else "fenced")
    return messages.Refused(error.status, error.code, str(error))
