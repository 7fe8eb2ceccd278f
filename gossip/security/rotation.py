"""Changing the key of a whole group under traffic: install, use, remove, each by all. A shell.

Only when every live member has installed the new key does anybody use it, so at every moment
each can open what any other seals. The steps travel over sealed streams. Members come and go
meanwhile, so the list is read anew before each step and once more at the end.

Source: the rotation of serf's keyring, with the wait for all made the rule.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from gossip.errors import KeyringError, RotationFailed
from gossip.member import Address, Member
from gossip.messages import KeyChange, KeyChanged, KeyVerb, StreamMessage
from gossip.security.keyring import Keyring

AT_ONCE = 16
"""Members asked at the same time."""

SPREAD = 3
"""Times ln(n+1) gossip intervals: by then a rumour has reached all (SWIM, section 4.1)."""

Exchange = Callable[[Address, StreamMessage], Awaitable[StreamMessage]]
"""Carries a request to an address and returns the answer. Raises OSError, EOFError."""


def change(keyring: Keyring, asked: KeyChange) -> KeyChanged:
    """Take one step with our own keyring, and say how it went."""
    steps = {
        KeyVerb.INSTALL: keyring.install,
        KeyVerb.USE: keyring.use,
        KeyVerb.REMOVE: keyring.remove,
    }
    try:
        steps[asked.verb](asked.key)
    except KeyringError as error:
        return KeyChanged(str(error))
    return KeyChanged("")


class Rotation:
    """One change of keys, led by one member."""

    def __init__(
        self,
        new: bytes,
        keyring: Keyring,
        others: Callable[[], Sequence[Member]],
        exchange: Exchange,
        *,
        gossip_interval_s: float,
    ) -> None:
        """`others` lists the live members that are known at that moment."""
        self._new, self._keyring = new, keyring
        self._others, self._exchange = others, exchange
        self._gossip_interval_s = gossip_interval_s
        self._installed: set[bytes] = set()
        self._using: set[bytes] = set()
        """Uids, not names: a member that restarts has read its old keys again."""

    async def run(self) -> None:
        """Let the group seal with the new key and open no other.

        Raises RotationFailed after the first step that somebody did not take; beginning again is
        harmless. The leader takes each step last: until all use the new key it seals with the
        old one, which a member that joined meanwhile can open.
        """
        self._step_here(KeyVerb.INSTALL, self._new)
        await self._bring_all(self._installed, KeyVerb.INSTALL)
        await self._bring_all(self._using, KeyVerb.INSTALL, KeyVerb.USE)
        # Who joined through somebody a moment ago is in our table once the rumour has spread.
        # Who comes later finds nobody that seals with the old key, and is told at its own place.
        intervals = SPREAD * math.log(len(self._others()) + 2)
        await asyncio.sleep(intervals * self._gossip_interval_s)
        await self._bring_all(self._using, KeyVerb.INSTALL, KeyVerb.USE)
        self._step_here(KeyVerb.USE, self._new)
        olds = self._keyring.besides(self._new)
        for old in olds:
            await self._step(self._others(), KeyVerb.REMOVE, old)
        if late := [member.name for member in self._missing(self._using)]:
            raise RotationFailed(f"remove: {', '.join(late)}: joined midway without the new key")
        for old in olds:
            self._step_here(KeyVerb.REMOVE, old)

    async def _bring_all(self, done: set[bytes], *verbs: KeyVerb) -> None:
        """Have everybody take the steps, and whoever joins while we ask."""
        while missing := self._missing(done):
            for verb in verbs:
                await self._step(missing, verb, self._new)
            done |= {member.uid for member in missing}

    def _missing(self, done: set[bytes]) -> list[Member]:
        return [member for member in self._others() if member.uid not in done]

    def _step_here(self, verb: KeyVerb, key: bytes) -> None:
        if failure := change(self._keyring, KeyChange(verb, key)).failure:
            raise RotationFailed(f"{verb.name.lower()}: here: {failure}")

    async def _step(self, members: Sequence[Member], verb: KeyVerb, key: bytes) -> None:
        """Have `members` take one step. Raises RotationFailed unless all did."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def ask(member: Member) -> str:
            async with gate:
                try:
                    answer = await self._exchange(member.address, KeyChange(verb, key))
                except (OSError, EOFError) as error:
                    return f"{member.name}: {str(error) or type(error).__name__}"
            if not isinstance(answer, KeyChanged):
                return f"{member.name}: a strange answer"
            return f"{member.name}: {answer.failure}" if answer.failure else ""

        if failures := [*filter(None, await asyncio.gather(*map(ask, members)))]:
            raise RotationFailed(f"{verb.name.lower()}: " + "; ".join(failures))
