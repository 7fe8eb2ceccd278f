"""The steps by which a group changes its key under traffic: install, use, remove. A shell.

The member that leads a step asks all members first and refuses the step if one of them does not
answer or cannot take it. A key is used only when every member has installed it, and removed only
when no member seals with it, so each member can open at every moment what any other one seals.
The steps travel over sealed streams, and repeating a step is harmless.

Source: the keyring of serf and consul, with the wait for all members made the rule.
Left out: protection against two operators who change the keys at the same time.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from gossip.errors import KeyringError, RotationFailed
from gossip.member import Address, Member
from gossip.messages import KeyChange, KeyChanged, KeyVerb, StreamMessage
from gossip.security.keyring import Keyring, key_id

AT_ONCE = 16
"""Most members asked at the same time."""

_NEW_KEY_BYTES = 32

Exchange = Callable[[Address, StreamMessage], Awaitable[StreamMessage]]
"""Carries a request to an address and returns the answer. Raises OSError, EOFError."""


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The keys of one member."""

    name: str
    ids: Sequence[str] = ()
    """Identifiers in hex, the primary key first; empty if the member did not answer."""
    problem: str = ""
    """Why the member cannot take a step; "" if it can."""


async def change(keyring: Keyring, asked: KeyChange) -> KeyChanged:
    try:
        await keyring.take(asked.verb, asked.key)
    except KeyringError as error:
        return KeyChanged(str(error), tuple(keyring.ids))
    return KeyChanged("", tuple(keyring.ids))


class Rotation:
    """Changes the keys of some members, one step at a time.

    The caller names all members that shall keep up with the group, the leading one among them. A
    live member that is not named is not asked: the change may be meant to shut it out.
    """

    def __init__(
        self, me: str, keyring: Keyring, members: Callable[[], Sequence[Member]], exchange: Exchange
    ) -> None:
        """members: returns the present live members."""
        self._me = me
        self._keyring = keyring
        self._members = members
        self._exchange = exchange

    async def holders(self, names: Collection[str]) -> list[KeyHolder]:
        return await self._ask(names, KeyVerb.LIST, b"")

    async def install(self, names: Collection[str], identifier: bytes = b"") -> bytes:
        """Have all members install a key; return its identifier.

        identifier: that of a key that we hold; empty for a new key.

        Raises RotationFailed naming the members that did not take the step.
        """
        await self._ready(names)
        key = secrets.token_bytes(_NEW_KEY_BYTES)
        if identifier:
            held = self._keyring.get(identifier)
            if held is None:
                raise RotationFailed(
                    f"install: {self._me} does not hold key {identifier.hex()};"
                    " ask a member that holds it"
                )
            key = held
        await self._step(names, KeyVerb.INSTALL, key)
        return key_id(key)

    async def use(self, names: Collection[str], identifier: bytes) -> None:
        """Have all members seal with a key. Raises RotationFailed unless all have installed it."""
        holders = await self._ready(names)
        if lacking := [each.name for each in holders if identifier.hex() not in each.ids]:
            raise RotationFailed(
                f"use: key {identifier.hex()} is not installed on {', '.join(lacking)};"
                " install it first"
            )
        await self._step(names, KeyVerb.USE, identifier)

    async def remove(self, names: Collection[str], identifier: bytes) -> None:
        """Have all members forget a key. Raises RotationFailed if a member still seals with it."""
        holders = await self._ready(names)
        if not any(identifier.hex() in each.ids for each in holders):
            raise RotationFailed(f"remove: no member holds key {identifier.hex()}")
        if users := [each.name for each in holders if each.ids[0] == identifier.hex()]:
            raise RotationFailed(
                f"remove: key {identifier.hex()} is in use on {', '.join(users)};"
                " use another key first"
            )
        await self._step(names, KeyVerb.REMOVE, identifier)

    async def _ready(self, names: Collection[str]) -> list[KeyHolder]:
        """Return the keys of all members. Raises RotationFailed unless all can take a step."""
        return _insist("no key was changed", await self.holders(names))

    async def _step(self, names: Collection[str], verb: KeyVerb, key: bytes) -> None:
        taken = await self._ask(names, verb, key)
        _insist(f"{verb.name.lower()}: not all members took the step", taken)

    async def _ask(self, names: Collection[str], verb: KeyVerb, key: bytes) -> list[KeyHolder]:
        gate = asyncio.Semaphore(AT_ONCE)
        live = {member.name: member.address for member in self._members()}

        async def ask(name: str) -> KeyHolder:
            async with gate:
                return await self._ask_one(name, live.get(name), KeyChange(verb, key))

        return await asyncio.gather(*map(ask, sorted(names)))

    async def _ask_one(self, name: str, address: Address | None, asked: KeyChange) -> KeyHolder:
        answer: StreamMessage
        if name == self._me:
            answer = await change(self._keyring, asked)
        elif address is None:
            return KeyHolder(name, problem="it is down; start it, or take it out of the group")
        else:
            try:
                answer = await self._exchange(address, asked)
            except (OSError, EOFError) as error:
                return KeyHolder(name, problem=f"no answer: {str(error) or type(error).__name__}")
        if not isinstance(answer, KeyChanged):
            return KeyHolder(name, problem="the answer is of another kind")
        return KeyHolder(name, answer.ids, answer.failure)


def _insist(what: str, holders: list[KeyHolder]) -> list[KeyHolder]:
    """Return `holders`. Raises RotationFailed if one of them has a problem."""
    if failures := [f"{each.name}: {each.problem}" for each in holders if each.problem]:
        raise RotationFailed(f"{what}: " + "; ".join(failures))
    return holders
