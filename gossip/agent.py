"""One running member: a clock, sockets and randomness around one `Swim`. A shell.

It feeds events and performs the effects in their order; no rule of the protocol is here.
Everything runs in the event loop that called `start`, but for the threads that write the snapshot
and the key file.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence

from gossip import messages, news, wire
from gossip.clock import Clock
from gossip.config import Config
from gossip.errors import (
    AlreadyStarted,
    BindFailed,
    KeyringError,
    MetaTooLarge,
    NameTooLong,
    NotRunning,
)
from gossip.exchange import Exchanges
from gossip.joining import Joining, JoinReport
from gossip.member import Address, Change, Member
from gossip.protocol.chronicle import Moment
from gossip.protocol.effects import (
    Ask,
    Departed,
    Effect,
    Reply,
    Send,
    SetTimer,
)
from gossip.protocol.events import (
    Event,
    LeaveRequested,
    ProbeAsked,
    Received,
    SeedAdded,
    Stalled,
    Started,
    Timer,
    TimerFired,
)
from gossip.protocol.swim import Swim
from gossip.security.admission import SEAL_BYTES, SESSION_BYTES, Security
from gossip.security.authenticator import SessionAuthenticator
from gossip.security.ingress import Ingress
from gossip.security.rotation import Rotation
from gossip.snapshot import Snapshot
from gossip.subscribers import Subscribers
from gossip.subscription import Subscription
from gossip.transport import Transport, advertised

_log = logging.getLogger("gossip")

OPEN = Security()
"""Security without a key: for networks in which every process is trusted."""

_LEAVE_SLACK_S = 1.0
"""Time beyond `leave_timeout_s` before the shell stops to wait for the protocol."""


class Agent:
    """Makes this process a member, and lists the others."""

    def __init__(
        self,
        name: str,
        bind: Address,
        *,
        config: Config,
        seeds: Sequence[Address] = (),
        meta: bytes = b"",
        rng: random.Random | None = None,
        advertise: Address | None = None,
        snapshot: Snapshot | None = None,
        security: Security = OPEN,
    ) -> None:
        """Prepare a member; nothing is opened before `start`.

        name: stable identity, 1 to 128 bytes; must not be used by another living process.
        bind: host and port for UDP and TCP; port 0 lets the kernel choose one.
        seeds: where other members may be found; host names are allowed here.
        meta: at most 512 bytes, which all peers see in `Member.meta`.
        advertise: where peers reach us, if it is not `bind`; a name is resolved once, at start.
        snapshot: keeps the addresses of the others over restarts.
        security: which processes may be members; by default all.
        Raises NameTooLong, MetaTooLarge, ConfigError.
        """
        _check_name(name)
        _check_meta(meta)
        self._name = name
        self._bind = bind
        self._config = config
        self._seeds = list(seeds)
        self._meta = meta
        self._rng = rng or random.Random()
        self._advertise = advertise
        self._security = security
        self._ingress = Ingress(security.allow)
        self._exchanges = Exchanges(self._ingress, security.keyring, self._feed)
        self._transport = Transport(
            config, self._on_datagram, self._exchanges.serve, self._ingress.permits
        )
        self._swim: Swim | None = None
        self._subscribers = Subscribers(snapshot)
        self._inbox: deque[Event] = deque()
        self._is_stepping = False
        tolerated_s = max(config.stall_min_s, config.probe_timeout_s / 2)
        drain = self._transport.drain
        self._clock = Clock(tolerated_s, before=drain, stalled=self._stalled, fired=self._fired)
        self._tasks: set[asyncio.Task[None]] = set()
        self._departed = asyncio.Event()
        self._is_stopped = False

    async def start(self) -> None:
        """Bind UDP and TCP and begin to join in the background; never waits for a seed.

        Raises BindFailed with nothing left open, AlreadyStarted if this was called before.
        """
        if self._swim is not None or self._is_stopped:
            raise AlreadyStarted(self._name)
        bound = await self._transport.start(self._bind)
        try:
            address = await advertised(self._advertise, bound, next(iter(self._seeds), None))
        except BindFailed:
            await self._transport.stop()
            raise
        me = Member(
            name=self._name,
            uid=secrets.token_bytes(messages.UID_BYTES),
            address=address,
            incarnation=time.time_ns() // 1_000_000,
            meta=self._meta,
            changed_at_s=time.monotonic(),
        )
        self._seeds += self._subscribers.known_addresses()
        seeds = tuple(seed for seed in dict.fromkeys(self._seeds) if seed != me.address)
        self._swim = Swim(me, self._encrypt(me), rng=self._rng, seeds=seeds)
        self._feed(Started())

    async def join(self, seeds: Sequence[Address], *, timeout_s: float = 10.0) -> JoinReport:
        """Return once a first seed has answered; attempts at the others go on in the background.

        Raises JoinFailed if no seed has answered after `timeout_s`; the attempts go on.
        Raises NameConflict if a live process holds our name. Raises NotRunning.
        """
        self._running()
        joining = Joining(self._name, seeds)
        self._subscribers.begin(joining)
        for seed in seeds:
            self._feed(SeedAdded(seed))
        return await joining.wait(timeout_s)

    async def leave(self) -> None:
        """Return once the others know that we leave, or after `leave_timeout_s`.

        The member sends nothing afterwards. Call `stop` as well. Raises NotRunning.
        """
        self._running()
        self._feed(LeaveRequested())
        try:
            async with asyncio.timeout(self._config.leave_timeout_s + _LEAVE_SLACK_S):
                await self._departed.wait()
        except TimeoutError:
            _log.warning("a member left before all knew of it", extra={"member": self._name})

    async def stop(self) -> None:
        """Close all sockets and end all tasks and timers. Others are not informed: see `leave`.

        May be called twice, and before `start`.
        """
        self._is_stopped = True
        self._clock.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._transport.stop()
        await self._subscribers.close(has_left=self._departed.is_set())

    @property
    def address(self) -> Address:
        """The address at which peers reach us. Raises NotRunning before `start`."""
        return self._running().membership.me.address

    @property
    def health(self) -> int:
        """Lifeguard's score of our own ill health, 0 for well. Raises NotRunning before `start`."""
        return self._running().membership.awareness.score

    @property
    def counters(self) -> Mapping[str, int]:
        """Counts of events since the start, by name."""
        core = self._swim.membership.counters if self._swim is not None else Counter[str]()
        shells = self._ingress.counters + self._exchanges.counters + self._transport.counters
        return shells + core

    def members(self) -> list[Member]:
        """Return all known members by name: ourselves, the dead and the left included.

        Raises NotRunning before `start`.
        """
        return sorted(self._running().membership.table, key=lambda member: member.name)

    def subscribe(self, callback: Callable[[Change], None]) -> None:
        """Call `callback` in the event loop for each later change of another member.

        It must be quick. Its exceptions are only logged.
        """
        self._subscribers.add_callback(callback)

    def events(self) -> Subscription:
        """Return the later news, to be read with `async for`; the iteration ends with `stop`.

        A reader that falls 1,024 news behind gets a NewsLost with the number that it missed.
        """
        return self._subscribers.subscribe()

    def explain(self, name: str) -> Sequence[Moment]:
        """Return the last changes in the belief about a member, oldest first.

        Each has its time, its reporter and its cause: the probes, the rumour or the table.
        Empty for a member that was always alive or is unknown. Raises NotRunning.
        """
        return self._running().membership.chronicle.of(name)

    def add_seed(self, seed: Address) -> None:
        """Look for members at one more address from now on."""
        self._seeds.append(seed)
        if self._swim is not None:
            self._feed(SeedAdded(seed))

    def probe(self, name: str) -> None:
        """Probe a member now, since the application lost its connection to it.

        Nothing follows if the member answers. Raises NotRunning before `start`.
        """
        self._running()
        self._feed(ProbeAsked(name))

    def rotation(self) -> Rotation:
        """Return the steps that change the keys of the group.

        Raises KeyringError if this agent does not seal what it sends, NotRunning.
        """
        self._running()
        keyring, config = self._security.keyring, self._config
        if keyring is None or not config.encrypt_outgoing:
            raise KeyringError(
                "this member has no keys, so it does not encrypt: start it with a keyring"
            )

        def live() -> list[Member]:
            return [each for each in self.members() if each.is_live]

        async def exchange(to: Address, message: messages.StreamMessage) -> messages.StreamMessage:
            return await self._exchanges.ask(to, message, self._transport, config.stream_timeout_s)

        return Rotation(self._name, keyring, live, exchange)

    def _encrypt(self, me: Member) -> Config:
        """Begin to seal if there is a keyring; return settings that leave room for the seals."""
        keyring, label = self._security.keyring, self._security.label
        if keyring is None:
            return self._config
        from gossip.security.seal import Seal  # noqa: PLC0415 - takes 40 ms, needed only with keys.

        seal = Seal(keyring, label, me.uid, lambda: secrets.token_bytes(SESSION_BYTES))
        authenticator = SessionAuthenticator(seal, self._name, self._rng)
        self._transport.seal = seal
        self._ingress.authenticator = authenticator
        self._ingress.takes_plain = not self._config.verify_incoming
        self._subscribers.add_callback(authenticator.changed)
        room = self._config.datagram_bytes_max - SEAL_BYTES
        return dataclasses.replace(self._config, datagram_bytes_max=room)

    def _running(self) -> Swim:
        if self._swim is None:
            raise NotRunning(self._name)
        return self._swim

    def _feed(self, event: Event, now: float | None = None) -> None:
        """Step once and perform the effects. Events that come meanwhile wait for their turn.

        Messages that arrive before our address is known, or after the end, are lost.
        """
        swim = self._swim
        if swim is None or self._is_stopped:
            return
        self._inbox.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._inbox:
                event = self._inbox.popleft()
                effects = swim.step(event, time.monotonic() if now is None else now)
                _log.debug("%s %s -> %s", self._name, event, effects)
                for effect in effects:
                    self._perform(effect)
        finally:
            self._is_stepping = False

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(to, messages):
                self._send(to, messages)
            case Ask():
                self._own(self._exchanges.carry(effect, self._transport))
            case Reply():
                self._exchanges.reply(effect)
            case SetTimer(timer, at_s):
                self._clock.set(timer, at_s)
            case Departed():
                self._departed.set()
            case _:
                self._subscribers.hear(effect)

    def _own(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_datagram(self, data: bytes, sender: Address) -> None:
        admitted, challenge = self._ingress.datagram(data, sender, time.monotonic())
        if challenge is not None:
            self._send(sender, (challenge,))
        if admitted:
            self._feed(Received(sender, admitted))

    def _send(self, to: Address, said: Sequence[messages.DatagramMessage]) -> None:
        data = wire.encode_datagram(said)
        seal = self._transport.seal
        if seal is not None and self._config.encrypt_outgoing:
            data = seal.seal(data)
        self._transport.send(to, data)

    def _stalled(self, lag_s: float, now: float) -> None:
        values = {"member": self._name, "seconds": round(lag_s, 3)}
        _log.warning("this process was stalled", extra=values)
        self._feed(Stalled(lag_s), now)
        self._subscribers.tell(news.Stalled(lag_s))

    def _fired(self, timer: Timer, now: float) -> None:
        self._feed(TimerFired(timer), now)


def _check_name(name: str) -> None:
    if not messages.is_name(name):
        most = messages.NAME_BYTES_MAX
        raise NameTooLong(f"a name must have 1 to {most} printable bytes; got {name!r}")


def _check_meta(meta: bytes) -> None:
    if len(meta) > messages.META_BYTES_MAX:
        raise MetaTooLarge(
            f"metadata must have at most {messages.META_BYTES_MAX} bytes; got {len(meta)}"
        )
