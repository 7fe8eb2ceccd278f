"""The change of a group's key, step by step, also when some members cannot follow."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from gossip import Address, Keyring, Member
from gossip.errors import RotationFailed
from gossip.messages import KeyChange, KeyChanged, KeyVerb, StreamMessage
from gossip.security.keyring import key_id
from gossip.security.rotation import KeyHolder, Rotation, change
from tests.gossip.rig import peer

OLD, OTHER = b"o" * 32, b"n" * 32
NAMES = ("n0", "n1", "n2")


class Group:
    """Keyrings of members, each of which opens a request only if it has the key that sealed it."""

    def __init__(self) -> None:
        self.rings = {name: Keyring([OLD]) for name in (*NAMES, "outsider")}
        self.down: set[str] = set()
        self.falls_after: int | None = None
        """The request after which n2 is down."""
        self.rotation = Rotation("n0", self.rings["n0"], self.live, self.exchange)

    def live(self) -> list[Member]:
        return [
            dataclasses.replace(peer(name), address=(name, 7000))
            for name in self.rings
            if name not in self.down
        ]

    async def exchange(self, to: Address, message: StreamMessage) -> StreamMessage:
        assert isinstance(message, KeyChange)
        if self.falls_after is not None:
            self.falls_after -= 1
            if self.falls_after < 0 and to[0] == "n2":
                raise TimeoutError
        ring = self.rings[to[0]]
        if ring.get(self.rings["n0"].primary) is None:
            raise OSError("no answer to what it cannot open")
        await asyncio.sleep(0)
        return await change(ring, message)

    def ids(self) -> list[list[str]]:
        return [self.rings[name].ids for name in NAMES]


async def test_the_named_members_change_their_key_and_no_other_does() -> None:
    group = Group()
    key = await group.rotation.install(NAMES)
    await group.rotation.use(NAMES, key)
    await group.rotation.remove(NAMES, key_id(OLD))
    assert group.ids() == [[key.hex()]] * 3
    assert group.rings["outsider"].ids == [key_id(OLD).hex()]
    assert await group.rotation.holders(NAMES) == [KeyHolder(name, (key.hex(),)) for name in NAMES]


@pytest.mark.parametrize("down", ["n1", "n2"])
async def test_a_member_that_is_down_is_named_and_nothing_is_changed(down: str) -> None:
    group = Group()
    group.down.add(down)
    before = group.ids()
    rotation = group.rotation
    for step in (
        rotation.install(NAMES), rotation.use(NAMES, key_id(OLD)),
        rotation.remove(NAMES, key_id(OTHER)),
    ):  # fmt: skip
        with pytest.raises(RotationFailed, match=f"no key was changed: {down}: it is down"):
            await step
    assert group.ids() == before


async def test_a_key_that_one_member_lacks_is_not_used() -> None:
    group = Group()
    for name in ("n0", "n1"):
        await group.rings[name].take(KeyVerb.INSTALL, OTHER)
    with pytest.raises(RotationFailed, match="is not installed on n2;"):
        await group.rotation.use(NAMES, key_id(OTHER))
    assert await group.rotation.install(NAMES, key_id(OTHER)) == key_id(OTHER)
    await group.rotation.use(NAMES, key_id(OTHER))
    assert group.ids() == [[key_id(OTHER).hex(), key_id(OLD).hex()]] * 3


async def test_a_key_that_one_member_uses_is_not_removed() -> None:
    group = Group()
    key = await group.rotation.install(NAMES)
    await group.rings["n1"].take(KeyVerb.USE, key)
    with pytest.raises(RotationFailed, match="in use on n1;"):
        await group.rotation.remove(NAMES, key)
    with pytest.raises(RotationFailed, match="in use on n0, n2;"):
        await group.rotation.remove(NAMES, key_id(OLD))
    with pytest.raises(RotationFailed, match="no member holds key"):
        await group.rotation.remove(NAMES, key_id(OTHER))
    with pytest.raises(RotationFailed, match="n0 does not hold key"):
        await group.rotation.install(NAMES, key_id(OTHER))


async def test_a_step_that_broke_off_is_repeated() -> None:
    group = Group()
    key = await group.rotation.install(NAMES)
    group.falls_after = 2
    with pytest.raises(RotationFailed, match="use: not all members took the step: n2: no answer"):
        await group.rotation.use(NAMES, key)
    assert [ids[0] == key.hex() for ids in group.ids()] == [True, True, False]
    group.falls_after = None
    with pytest.raises(RotationFailed, match="in use on n2;"):
        await group.rotation.remove(NAMES, key_id(OLD))
    await group.rotation.use(NAMES, key)
    await group.rotation.remove(NAMES, key_id(OLD))
    assert group.ids() == [[key.hex()]] * 3


async def test_an_answer_of_another_kind_is_a_failure() -> None:
    group = Group()

    async def strange(_to: Address, _message: StreamMessage) -> StreamMessage:
        return KeyChange(KeyVerb.INSTALL, OTHER)

    rotation = Rotation("n0", group.rings["n0"], group.live, strange)
    with pytest.raises(RotationFailed, match="n1: the answer is of another kind"):
        await rotation.install(NAMES)
    assert group.ids() == [[key_id(OLD).hex()]] * 3
    short = await change(group.rings["n0"], KeyChange(KeyVerb.INSTALL, b"short"))
    assert short == KeyChanged("a key must have 16, 24 or 32 bytes; got 5", (key_id(OLD).hex(),))
