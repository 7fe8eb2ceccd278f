"""One process in one group or set of roles: the shell around `sessions/member.py`.

A request is sent once, to one node, and stamped just before; if that node does not answer, the
next goes to another. Events are delivered in order: to callbacks, or to the task that iterates over
`events()`. A revoked partition is released once its callback has returned, or the next event is
asked for; at once without callbacks and reader. A process that leaves announces it only then.
"""

import asyncio
import contextlib
import inspect
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, assert_never
from urllib.parse import quote

import orjson

from docstore.client.boot_clock import boot_clock, drop_in_child
from docstore.client.errors import ClientError, Differs, RequestFailed, check_same
from docstore.client.requests import Requests
from docstore.ownership.by_induction import Event, Revoked
from docstore.services.sessions_groups import MemberDetails, Settings
from docstore.sessions.group_messages import (
    Fenced,
    Join,
    Joined,
    Leave,
    Pulse,
    Refused,
    Reply,
    Request,
    Wait,
    read_shown,
)
from docstore.sessions.member import Member
from docstore.sessions.member_events import (
    Answered,
    Ended,
    Finished,
    LeaveAsked,
    MemberEvent,
    Say,
    Tell,
    Tick,
)

HEADERS = {"Content-Type": "application/json"}
LOOK_S = 1.0
"""The longest sleep: the clock of proofs may have gone on while that of the loop stood still."""
WAIT_S = 20
ANSWER_S = 2.0
JOIN_S = 5.0
LEAVE_S = 5.0
"""How long a leaving process waits for the answer, beside the time of its callbacks."""

UNSEEN_MAX = 1_000
"""Events that are kept for a reader that may come later."""

Callback = Callable[[Event], Awaitable[None] | None] | None


class GroupEnded(ClientError):
    """This process takes part no more, and not because it left: its group is gone, say."""


class GroupMembership:
    """Takes part from `async with` on, until the block is left."""

    def __init__(
        self,
        client: Requests,
        link: str,
        asked: Mapping[str, Any],
        *,
        instance: str = "",
        capacity: int = 1,
        callbacks: dict[str, Callback] | None = None,
    ) -> None:
        """link: of the group's document. callbacks: name of an event's class -> what to call.

        asked: the settings that its document must have, in the words of its page.
        """
        self._client = client
        self.link = link
        self._asked = asked
        self._clock = boot_clock()
        self.member = Member(
            lambda: uuid.uuid4().hex,
            MemberDetails(instance=instance, host=socket.gethostname(), capacity=capacity),
        )
        drop_in_child(self.member)
        self._callbacks = {name: each for name, each in (callbacks or {}).items() if each}
        self._url = 0
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._reader: asyncio.Task[Any] | None = None
        """The task that handles events: the last one that asked for one, or that calls back."""
        self._happened = asyncio.Event()
        self._woken = asyncio.Event()
        self._ended = asyncio.Event()
        self._unfinished: set[str] = set()
        """Revoked partitions of which a callback, or the reader of events, has not finished."""
        self._is_in = asyncio.Event()
        """Set once this process takes part, or never will."""
        self.why_over = ""
        """Why this process takes part no more: "left", or what was answered."""
        self._refused: ClientError | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Take part; what is led comes as events. Raises RequestFailed, Differs: it may not.

        Where no node answers for a while it goes on to ask, and leads nothing until then.
        """
        self._spawn(self._watch())
        if self.calls_back:
            self._reader = self._spawn(self._deliver())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(JOIN_S):
                    await self._is_in.wait()
            if self._refused is not None:
                raise self._refused
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave. Raises GroupEnded if it had ended before, unless the block raises already."""
        try:
            await self.leave()
        finally:
            await self._close()
        if kind is None:
            self._check_over()

    async def _close(self) -> None:
        self.member.drop_all()
        self._end("left")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _insist_on(self, factory: str, wanted: dict[str, Any]) -> None:
        """Make the document unless it is there. Raises RequestFailed, Differs."""
        try:
            page = await self._client.json("GET", quote(self.link))
        except RequestFailed as error:
            if error.status != 404:
                raise
            try:
                await self._client.json("POST", factory, wanted)
            except RequestFailed as refused:
                if refused.status != 409:
                    raise  # 409: another process has made it meanwhile; its join says how.
        else:
            parts = {"": page["partitions"]} if "partitions" in page else page["topics"]
            check_same(self.link, self._asked, _settings(page["settings"], parts))

    async def leave(self, *, drain: bool = False) -> None:
        """Leave: lead nothing, wait for callbacks and the reader of events, then announce it.

        drain: go on until others have what this process has. It takes at most revokeMs and 5 s.
        """
        self._feed(LeaveAsked(drain))
        me, reader = asyncio.current_task(), self._reader
        is_waited_for = reader is not None and reader is not me and not reader.done()
        if not is_waited_for:
            for partition in tuple(self._unfinished):  # Its reader is here, and reads no further.
                self._feed(Finished(partition))
        settings = self.member.settings
        revoke_s = 0.0 if settings is None else settings.revoke_ms / 1000
        with contextlib.suppress(TimeoutError):  # Else its session runs out.
            async with asyncio.timeout(revoke_s + LEAVE_S):
                await self._ended.wait()
                if reader is not None and is_waited_for and self.calls_back:
                    await asyncio.wait({reader})

    # Leadership

    @property
    def calls_back(self) -> bool:
        """Say whether there are callbacks."""
        return bool(self._callbacks)

    @property
    def is_over(self) -> bool:
        """Say whether this process takes part no more."""
        return self._ended.is_set()

    def leads_partition(self, partition: int) -> bool:
        """Say whether this process leads a partition, by its clock of this moment."""
        induced = self.member.induced
        return induced is not None and induced.leads_partition(partition, self._clock())

    def _check_over(self) -> None:
        """Raise GroupEnded if this process takes part no more, and has not left by itself."""
        if self.is_over and self.why_over != "left":
            raise GroupEnded(self.why_over) from self._refused

    @property
    def partitions(self) -> list[int]:
        """Return the partitions that this process leads at this moment, as events name them."""
        induced = self.member.induced
        return [] if induced is None else [p for p in induced.held if self.leads_partition(p)]

    def now(self) -> float:
        """Return the clock by which proofs are counted, as `event.protected(now)` wants it."""
        return self._clock()

    async def changed(self) -> None:
        """Wait until something has been acquired, revoked or fenced."""
        await self._happened.wait()

    async def events(self) -> AsyncIterator[Event]:
        """Yield what happens; asking for the next event acknowledges the one before.

        Instead of callbacks, and by one at a time. Raises GroupEnded when the group is gone.
        """
        if self.calls_back:
            raise RuntimeError(
                "its callbacks have the events: leave them out to iterate over these"
            )
        self._reader = asyncio.current_task()
        while (event := await self._events.get()) is not None:
            yield event
            self._reader = asyncio.current_task()
            self._finish(event)
        self._check_over()

    # The machine

    def _feed(self, event: MemberEvent) -> None:
        for effect in self.member.step(event, self._clock()):
            match effect:
                case Say():
                    self._spawn(self._say(effect))
                case Tell(happening):
                    self._tell(happening)
                case Ended(why):
                    self._end(why)
                case _:
                    assert_never(effect)
        self._woken.set()

    def _tell(self, event: Event) -> None:
        self._events.put_nowait(event)
        if isinstance(event, Revoked):
            self._unfinished.add(self.member.name_of(event.partition))
        if self._reader is None:
            asyncio.get_running_loop().call_soon(self._finish, event)
            while self._events.qsize() > UNSEEN_MAX:
                self._events.get_nowait()
        self._happened.set()
        self._happened = asyncio.Event()

    def _end(self, why: str) -> None:
        if not self._ended.is_set():
            self.why_over = why if self._refused is None else str(self._refused)
            self._ended.set()
            self._is_in.set()
            self._happened.set()
            self._events.put_nowait(None)

    async def _watch(self) -> None:
        """Tell the machine of the time whenever it wants to know."""
        while not self.is_over:
            self._woken.clear()
            self._feed(Tick())
            self._woken.clear()
            now = self._clock()
            pause_s = min(LOOK_S, max(0.0, self.member.next_at(now) - now))
            try:
                async with asyncio.timeout(pause_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _deliver(self) -> None:
        """Call back, in order."""
        while (event := await self._events.get()) is not None:
            await self.happened(event)
            self._finish(event)

    async def happened(self, event: Event) -> None:
        """Do what an event asks for before it is acknowledged."""
        callback = self._callbacks.get(type(event).__name__)
        if callback is None:
            return
        try:
            result = callback(event)
            if inspect.isawaitable(result):
                await result
        except Exception as error:  # noqa: BLE001 - a callback's mistake must not end the group
            context = {"message": f"the callback for {event} failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _finish(self, event: Event) -> None:
        if isinstance(event, Revoked):
            partition = self.member.name_of(event.partition)
            self._unfinished.discard(partition)
            self._feed(Finished(partition))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Requests

    async def _say(self, said: Say) -> None:
        """Send a request once, and hand its answer on with the stamp of its sending."""
        method, path, body, headers, timeout_s = _http(
            self.link, self.member.settings, said.request
        )
        urls = self._client.urls
        url = self._url % len(urls)
        headers = {**HEADERS, "Docstore-Timeout-Ms": str(int(timeout_s * 1000)), **headers}
        raw = None if body is None else orjson.dumps(body)
        reply: Reply | None = None
        stamp = self._clock()
        try:
            _, _, content = await self._client.once(
                urls[url], method, path, raw, headers, timeout_s=timeout_s
            )
            reply = read_shown(orjson.loads(content))
        except RequestFailed as error:
            reply = _refusal(error)
            if isinstance(reply, Refused):
                self._refused = self._refused or error
        except ClientError:
            reply = None
        if reply is None and url == self._url % len(urls):
            self._url += 1  # That node does not answer, or cannot: the next one is asked.
        self._feed(Answered(said.number, reply, stamp))
        if isinstance(reply, Joined):
            self._joined(reply)

    def _joined(self, reply: Joined) -> None:
        """Take part; or leave a group that was recreated with other settings since the check."""
        try:
            check_same(self.link, self._asked, _settings(reply.settings, reply.parts))
        except Differs as error:
            self._refused = error
            self._feed(LeaveAsked())
        else:
            self._is_in.set()


def _http(
    link: str, settings: Settings | None, request: Request
) -> tuple[str, str, Any, dict[str, str], float]:
    """Return method, path, body, headers and patience of a request to a group's coordinator."""
    pulse_s = JOIN_S if settings is None else settings.session_ms / 4000
    path = f"{quote(link)}/members"
    one = f"{path}/{quote(request.member, safe='')}"
    match request:
        case Join(member, about, former):
            body: dict[str, Any] = {"member": member, "former": former, **about._asdict()}
            del body["since"]
            return "POST", path, body, {}, JOIN_S
        case Pulse(_, number, generation, listing, owned, answered):
            body = {"kind": "HeartbeatRequest", "number": number, "answered": answered}
            body |= {"generation": generation, "listing": listing}
            body |= {} if owned is None else {"owned": list(owned)}
            return "PATCH", one, body, {}, pulse_s
        case Wait(_, generation, listing):
            body = {"kind": "WaitRequest", "generation": generation, "listing": listing}
            return "PATCH", one, body, {"Prefer": f"wait={WAIT_S}"}, WAIT_S + ANSWER_S
        case Leave(_, drain):
            return "DELETE", one + ("?drain" if drain else ""), None, {}, LEAVE_S
        case _:
            assert_never(request)


def _settings(settings: Mapping[str, Any], parts: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of a group in the words of the request that makes it."""
    what = {"partitions": parts[""]} if "" in parts else {"topics": sorted(parts)}
    return {**settings, **what}


def _refusal(error: RequestFailed) -> Reply | None:
    """Return what a problem says, None if it says nothing about the member."""
    if error.status >= 500 or error.status == 429:
        return None
    if error.code in ("unknown-member", "fenced"):
        return Fenced("unknown" if error.code == "unknown-member" else "fenced")
    return Refused(error.status, error.code, str(error))
