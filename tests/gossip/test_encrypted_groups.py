"""Real agents that share a key, and attacks without it."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import pytest

from gossip import Agent, Config, Keyring, Security, State, wire
from gossip.errors import KeyringError, RotationFailed
from gossip.messages import Dead, Ping
from gossip.security.keyring import KEYS_MAX, key_id
from gossip.security.seal import Seal
from tests.gossip.live import LOOPBACK, Launch, sees, until
from tests.gossip.rig import alive

KEYS = [bytes([number]) * 32 for number in range(10)]
ELSEWHERE = ("192.0.2.7", 53)


def seal_of(session: bytes = b"session1", *keys: bytes, label: str = "") -> Seal:
    return Seal(Keyring(keys or KEYS[:1]), label, session, lambda: b"session2")


def secured(label: str = "", *keys: bytes) -> Security:
    return Security(keyring=Keyring(keys or KEYS[:1]), label=label)


async def test_members_with_one_key_meet_and_others_do_not(launch: Launch) -> None:
    first = await launch("a", security=secured())
    second = await launch("b", first, security=secured())
    stranger = await launch("c", first)
    other_key = await launch("d", first, security=secured("", KEYS[5]))
    other_label = await launch("e", first, security=secured("another"))
    await until(lambda: sees(first, "b") is sees(second, "a") is State.ALIVE)
    wanted = ["packets_plain", "packets_of_unknown_key", "packets_forged"]
    await until(lambda: all(first.counters[name] for name in wanted))
    for agent in (stranger, other_key, other_label):
        assert [member.name for member in agent.members()] == [agent._name]
    assert [member.name for member in first.members()] == ["a", "b"]


async def test_36_a_key_is_rotated_under_traffic(launch: Launch) -> None:
    first = await launch("n0", security=secured())
    others = [await launch(f"n{number}", first, security=secured()) for number in range(1, 10)]
    agents = [first, *others]
    names = {f"n{number}" for number in range(10)}
    await until(lambda: all({m.name for m in agent.members()} == names for agent in agents))
    readers = [agent.events() for agent in agents]
    async with asyncio.timeout(30.0):
        rotation = first.rotation()
        key = await rotation.install(names)
        await rotation.use(names, key)
        await rotation.remove(names, key_id(KEYS[0]))
    for agent in agents:
        ring = agent._security.keyring
        assert ring is not None
        assert ring.ids == [key.hex()]
    # Traffic goes on under the new key: a member that leaves now reaches all others.
    await others[-1].leave()
    kinds = set()
    for reader in readers[1:-1]:
        async for news in reader:
            kinds.add(type(news).__name__)
            if type(news).__name__ == "Left":
                break
    assert kinds <= {"Left", "Stalled"}
    late = seal_of(b"attacker").seal(wire.encode_datagram([Dead("n1", 2**40, "n2")]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as old:
        old.sendto(late, first.address)
    await until(lambda: first.counters["packets_of_unknown_key"] >= 1)
    assert sees(first, "n1") is State.ALIVE


async def test_a_rotation_names_a_member_that_cannot_follow(launch: Launch) -> None:
    first = await launch("a", security=secured())
    full = await launch("b", first, security=secured("", *KEYS[:KEYS_MAX]))
    await until(lambda: sees(first, "b") is sees(full, "a") is State.ALIVE)
    with pytest.raises(RotationFailed, match="took the step: b: a keyring has at most 8"):
        await first.rotation().install("ab")
    plain = await launch("c")
    with pytest.raises(KeyringError, match="no keys"):
        plain.rotation()


async def test_a_plain_group_is_encrypted_step_by_step(launch: Launch) -> None:
    def config(*, encrypt: bool, verify: bool) -> Config:
        flags = {"encrypt_outgoing": encrypt, "verify_incoming": verify}
        return Config.parse({"preset": "loopback", **flags})

    plain = await launch("a")
    listening = await launch(
        "b", plain, config=config(encrypt=False, verify=False), security=secured()
    )
    await until(lambda: sees(plain, "b") is sees(listening, "a") is State.ALIVE)
    sealing = await launch(
        "c", listening, config=config(encrypt=True, verify=False), security=secured()
    )
    await until(lambda: sees(listening, "c") is sees(sealing, "b") is State.ALIVE)
    await plain.stop()
    strict = await launch("d", sealing, security=secured())
    await until(lambda: sees(sealing, "d") is sees(strict, "c") is State.ALIVE)
    assert strict.counters["packets_forged"] == 0


async def test_37_replayed_datagrams_change_nothing(launch: Launch) -> None:
    captured: list[bytes] = []

    def capture(agent: Agent) -> None:
        send = agent._transport.send

        def captured_send(to: object, datagram: bytes) -> None:
            captured.append(datagram)
            send(to, datagram)  # type: ignore[arg-type]

        agent._transport.send = captured_send  # type: ignore[method-assign]

    victim = await launch("a", security=secured())
    others = [await launch(name, victim, security=secured()) for name in "bc"]
    for agent in others:
        capture(agent)
    await until(lambda: all(sees(victim, name) is State.ALIVE for name in "bc"))
    await others[1].leave()
    await until(lambda: sees(victim, "c") is State.LEFT and len(captured) > 20)
    before = [(m.name, m.state, m.incarnation, m.meta) for m in victim.members()]
    reader = victim.events()
    repeated = victim.counters["packets_repeated"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        for turn in range(1000):
            attacker.sendto(captured[turn % 20], victim.address)
            if turn % 50 == 0:
                await asyncio.sleep(0)
    await until(lambda: victim.counters["packets_repeated"] >= repeated + 500)
    assert [(m.name, m.state, m.incarnation, m.meta) for m in victim.members()] == before
    await victim.stop()
    assert [news async for news in reader if type(news).__name__ != "Stalled"] == []

    # A restart remembers no counter: replayed messages are outdated, and change nothing.
    again = await launch("a", others[0], security=secured())
    await until(lambda: sees(again, "b") is State.ALIVE)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        for datagram in captured * 5:
            attacker.sendto(datagram, again.address)
    await until(lambda: again.counters["packets_repeated"] > 0)
    assert sees(again, "b") is State.ALIVE
    assert sees(again, "c") in (None, State.LEFT)


async def test_41_silent_clients_of_one_host_do_not_keep_others_out(launch: Launch) -> None:
    config = Config.parse({"preset": "loopback", "streams_per_host_max": 16})
    victim = await launch("a", config=config)
    clients = [await asyncio.open_connection(*victim.address) for _ in range(100)]
    await until(lambda: victim.counters["streams_refused"] >= 84)
    async with asyncio.timeout(15.0):
        for reader, _ in clients:
            assert await reader.read(1) == b""
    for _, writer in clients:
        writer.close()
    newcomer = await launch("b", victim)
    await until(lambda: sees(newcomer, "a") is State.ALIVE)
    assert LOOPBACK.stream_header_timeout_s == 1.0


def random_packets(count: int, seed: int) -> list[bytes]:
    """Return noise, and sound packets with a few bytes changed."""
    rng = random.Random(seed)
    sound = wire.encode_datagram([Ping(1, "me", "a"), alive("b", 20), Dead("a", 11, "b")])
    packets = []
    for _ in range(count):
        if rng.random() < 0.3:
            packets.append(rng.randbytes(rng.randrange(200)))
            continue
        mutated = bytearray(sound)
        for _ in range(rng.randrange(1, 6)):
            mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        packets.append(bytes(mutated[: rng.randrange(1, len(mutated) + 1)]))
    return packets


def resident_kib() -> int:
    """Return the memory of this process."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_38_noise_changes_nothing_in_an_encrypted_group(launch: Launch, count: int) -> None:
    victim = await launch("me", security=secured())
    friend = await launch("a", victim, security=secured())
    await until(lambda: sees(victim, "a") is State.ALIVE)
    before = [(m.name, m.state, m.incarnation) for m in victim.members()]
    packets = random_packets(count, 1)
    memory_kib = resident_kib()
    for packet in packets:
        victim._on_datagram(packet, ELSEWHERE)
        victim._on_datagram(b"\x51" + packet, ELSEWHERE)
    assert [(m.name, m.state, m.incarnation) for m in victim.members()] == before
    for body in random_packets(count // 100, 2):
        reader, writer = await asyncio.open_connection(*victim.address)
        writer.write(len(body).to_bytes(4, "big") + body)
        writer.close()
        async with asyncio.timeout(5.0):
            assert await reader.read() == b""
    await until(lambda: sees(friend, "me") is State.ALIVE)
    assert resident_kib() - memory_kib < 4096
    assert [(m.name, m.state, m.incarnation) for m in victim.members()] == before
