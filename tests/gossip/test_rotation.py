"""The change of a group's key, with members that come at every possible moment."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from gossip import Address, Keyring, Member
from gossip.errors import RotationFailed
from gossip.messages import KeyChange, KeyChanged, KeyVerb, StreamMessage
from gossip.security.rotation import Rotation, change
from tests.gossip.rig import peer

OLD, NEW = b"o" * 32, b"n" * 32


class Group:
    """Keyrings of members, each of which opens a request only if it has the key that sealed it."""

    def __init__(self, size: int) -> None:
        self.leader = Keyring([OLD])
        self.rings: dict[str, Keyring] = {}
        self.members: list[Member] = []
        self.asked = 0
        self.joins_after: int | None = None
        for number in range(size):
            self.join(f"n{number}")

    def join(self, name: str) -> None:
        uid = len(self.members).to_bytes(8)
        found = dataclasses.replace(peer(name), uid=uid, address=(name, 7000))
        self.members.append(found)
        self.rings[name] = Keyring([OLD])

    def others(self) -> list[Member]:
        return list(self.members)

    async def exchange(self, to: Address, message: StreamMessage) -> StreamMessage:
        self.asked += 1
        if self.asked == self.joins_after:
            self.join("newcomer")
        assert isinstance(message, KeyChange)
        ring = self.rings[to[0]]
        if ring.get(self.leader.primary) is None:
            raise OSError("nobody answers what it cannot open")
        await asyncio.sleep(0)
        return change(ring, message)

    async def rotate(self) -> None:
        rotation = Rotation(NEW, self.leader, self.others, self.exchange, gossip_interval_s=0.0)
        await rotation.run()

    def all_changed(self) -> bool:
        rings = [self.leader, *self.rings.values()]
        return all(ring.besides(NEW) == [] and ring.get(ring.primary) == NEW for ring in rings)


@pytest.mark.parametrize("moment", range(1, 10))
async def test_who_joins_while_anybody_seals_with_the_old_key_is_taken_along(moment: int) -> None:
    group = Group(3)
    group.joins_after = moment
    await group.rotate()
    assert "newcomer" in group.rings
    assert group.all_changed()


@pytest.mark.parametrize("moment", range(10, 13))
async def test_who_joins_too_late_is_named(moment: int) -> None:
    group = Group(3)
    group.joins_after = moment
    with pytest.raises(RotationFailed, match="newcomer"):
        await group.rotate()


async def test_a_rotation_that_failed_is_begun_again() -> None:
    group = Group(3)
    full = group.rings["n1"]
    for number in range(7):
        full.install(bytes([number]) * 16)
    with pytest.raises(RotationFailed, match="install: n1: a keyring holds 8"):
        await group.rotate()
    full.remove(bytes(16))
    await group.rotate()
    full_again = full.besides(NEW)
    assert full_again == [bytes([number]) * 16 for number in range(1, 7)]


async def test_a_latecomer_that_is_given_the_key_is_taken_along_by_the_next_try() -> None:
    group = Group(3)
    group.joins_after = 11
    with pytest.raises(RotationFailed, match="newcomer"):
        await group.rotate()
    group.rings["newcomer"].install(NEW)
    await group.rotate()
    assert group.all_changed()


async def test_a_strange_answer_is_a_failure() -> None:
    group = Group(1)

    async def strange(_to: Address, _message: StreamMessage) -> StreamMessage:
        return KeyChange(KeyVerb.INSTALL, NEW)

    rotation = Rotation(NEW, group.leader, group.others, strange, gossip_interval_s=0.0)
    with pytest.raises(RotationFailed, match="n0: a strange answer"):
        await rotation.run()
    assert group.leader.get(group.leader.primary) == OLD
    assert change(group.leader, KeyChange(KeyVerb.INSTALL, b"short")) != KeyChanged("")
