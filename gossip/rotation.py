"""Changing the key of a whole group under traffic: install, use, remove, each by all. A shell.

Only when every live member has installed the new key does anybody use it, so at every moment
each can open what any other seals. The steps travel over sealed streams.

Source: the rotation of serf's keyring, with the wait for all made the rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gossip.errors import KeyringError, RotationFailed
from gossip.keyring import Keyring
from gossip.member import Address, Member
from gossip.messages import KeyChange, KeyChanged, KeyVerb, StreamMessage

AT_ONCE = 16
"""Members asked at the same time."""

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


async def change_everywhere(
    verb: KeyVerb,
    key: bytes,
    *,
    keyring: Keyring,
    others: Sequence[Member],
    exchange: Exchange,
) -> None:
    """Take one step here and at all `others`. Raises RotationFailed unless all did."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(member: Member) -> str:
        async with gate:
            try:
                answer = await exchange(member.address, KeyChange(verb, key))
            except (OSError, EOFError) as error:
                return f"{member.name}: {str(error) or type(error).__name__}"
        if not isinstance(answer, KeyChanged):
            return f"{member.name}: a strange answer"
        return f"{member.name}: {answer.failure}" if answer.failure else ""

    ours = change(keyring, KeyChange(verb, key)).failure
    failures = [f"here: {ours}"] if ours else []
    failures += filter(None, await asyncio.gather(*map(ask, others)))
    if failures:
        raise RotationFailed(f"{verb.name.lower()}: " + "; ".join(failures))


async def rotate(
    new: bytes, old: bytes, *, keyring: Keyring, others: Sequence[Member], exchange: Exchange
) -> None:
    """Let the group seal with `new` instead of `old`.

    Raises RotationFailed after the first step that somebody did not take.
    """
    for verb, key in ((KeyVerb.INSTALL, new), (KeyVerb.USE, new), (KeyVerb.REMOVE, old)):
        await change_everywhere(verb, key, keyring=keyring, others=others, exchange=exchange)
