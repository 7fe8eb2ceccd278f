"""Keys, seals, windows and the way in; and real agents that an attacker without the key meets."""

from __future__ import annotations

import base64
import random
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossip import Change, Keyring, State, wire
from gossip.errors import ConfigError, KeyringError
from gossip.messages import Ack, Alive, Dead, KeyChange, KeyVerb, Ping, Sync
from gossip.security.admission import SEAL_BYTES, Opened, Refused
from gossip.security.authenticator import SessionAuthenticator
from gossip.security.ingress import Ingress
from gossip.security.key_file import KeyFile
from gossip.security.keyring import KEYS_MAX, key_id, keys_in
from gossip.security.replay import SESSIONS_MAX, WIDTH, ReplayWindows
from gossip.security.seal import Seal
from tests.gossip.rig import address_of, alive, hear, machine, peer, state_of

KEYS = [bytes([number]) * 32 for number in range(10)]
ELSEWHERE = ("192.0.2.7", 53)


def seal_of(session: bytes = b"session1", *keys: bytes, label: str = "") -> Seal:
    return Seal(Keyring(keys or KEYS[:1]), label, session, lambda: b"session2")


# Keys


async def test_the_first_key_seals_and_the_others_only_open() -> None:
    ring = Keyring(KEYS[:2])
    assert ring.primary == key_id(KEYS[0])
    assert ring.ids == [key_id(KEYS[0]).hex(), key_id(KEYS[1]).hex()]
    await ring.take(KeyVerb.USE, key_id(KEYS[1]))
    await ring.take(KeyVerb.REMOVE, key_id(KEYS[0]))
    assert ring.ids == [key_id(KEYS[1]).hex()]
    assert ring.get(key_id(KEYS[0])) is None


async def test_a_keyring_refuses_wrong_keys() -> None:
    ring = Keyring(KEYS[:KEYS_MAX])
    for step, key, why in (
        (KeyVerb.INSTALL, KEYS[KEYS_MAX], "at most 8"),
        (KeyVerb.INSTALL, bytes(15), "got 15"),
        (KeyVerb.REMOVE, key_id(KEYS[0]), "in use"),
        (KeyVerb.USE, key_id(KEYS[9]), "not installed"),
    ):
        with pytest.raises(KeyringError, match=why):
            await ring.take(step, key)
    with pytest.raises(KeyringError, match="at least one key"):
        Keyring([])
    before = ring.ids
    await ring.take(KeyVerb.INSTALL, KEYS[1])  # Again is no error.
    await ring.take(KeyVerb.REMOVE, key_id(KEYS[9]))
    assert ring.ids == before


async def test_a_keyring_of_a_file_is_as_the_file(tmp_path: Path) -> None:
    file, link = tmp_path / "home" / "keys", tmp_path / "keys"
    file.parent.mkdir()
    file.write_bytes(b"# keys\n" + base64.b64encode(KEYS[0]))
    link.symlink_to(file)
    ring = KeyFile(link)
    await ring.take(KeyVerb.LIST, b"")
    assert file.read_text().startswith("# keys")
    await ring.take(KeyVerb.INSTALL, KEYS[1])
    await ring.take(KeyVerb.USE, key_id(KEYS[1]))
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]
    assert KeyFile(file).ids == ring.ids == [key_id(key).hex() for key in (KEYS[1], KEYS[0])]
    # A file that cannot be written leaves the keys as they were.
    file.parent.rename(tmp_path / "away")
    for step in (KeyVerb.LIST, KeyVerb.REMOVE):
        with pytest.raises(KeyringError, match=f"{link} cannot be written"):
            await ring.take(step, key_id(KEYS[0]))
    assert KeyFile(tmp_path / "away" / "keys").ids == ring.ids
    assert len(ring.ids) == 2


def test_a_keyring_is_read_from_text() -> None:
    lines = ["# keys", "", *(base64.b64encode(key).decode() for key in KEYS[:2])]
    assert keys_in("\n".join(lines)) == KEYS[:2]
    with pytest.raises(KeyringError, match="must be base64"):
        keys_in("what?")


# Seals


def test_a_seal_adds_33_bytes_and_opens_as_it_was() -> None:
    packet = seal_of().seal(b"plain", b"context")
    assert len(packet) == len(b"plain") + SEAL_BYTES == len(b"plain") + 33
    opened = seal_of().open(packet, b"context")
    assert opened == Opened(b"plain", key_id(KEYS[0]), b"session1", 0)


@given(st.data())
def test_a_packet_that_was_touched_anywhere_does_not_open(data: st.DataObject) -> None:
    packet = bytearray(seal_of().seal(b"plain"))
    place = data.draw(st.integers(0, len(packet) - 1))
    packet[place] ^= data.draw(st.integers(1, 255))
    assert isinstance(seal_of().open(bytes(packet)), Refused)


def test_why_a_packet_does_not_open() -> None:
    packet = seal_of().seal(b"plain")
    assert seal_of().open(packet[:20]) is Refused.SHORT
    assert seal_of().open(wire.encode_datagram([Ping(1, "a", "b")])) is Refused.PLAIN
    assert seal_of(b"session1", KEYS[1]).open(packet) is Refused.UNKNOWN_KEY
    assert seal_of(label="other").open(packet) is Refused.FORGED
    assert seal_of().open(packet, b"another stream") is Refused.FORGED


def test_a_nonce_is_never_used_twice() -> None:
    seal = seal_of()
    seal._counter = 2**32 - 1
    last, first = seal.seal(b""), seal.seal(b"")
    nonces = [packet[5:17] for packet in (last, first)]
    assert nonces == [b"session1\xff\xff\xff\xff", b"session2\x00\x00\x00\x00"]


# Windows


@given(st.lists(st.integers(0, 400), max_size=300))
def test_a_window_lets_each_counter_through_once(counters: list[int]) -> None:
    windows, seen, top = ReplayWindows(), set(), -1
    for counter in counters:
        is_new = windows.is_new(b"s", counter)
        top = max(top, counter)
        assert is_new == (counter not in seen and top - counter < WIDTH)
        if is_new:
            seen.add(counter)


def test_a_floor_closes_all_below_it_and_sessions_are_bounded() -> None:
    windows = ReplayWindows()
    windows.set_floor(b"s", 50)
    assert not any(windows.is_new(b"s", counter) for counter in range(51))
    assert windows.is_new(b"s", 51)
    for number in range(SESSIONS_MAX + 5):
        windows.is_new(number.to_bytes(8, "big"), 0)
    assert len(windows._windows) == SESSIONS_MAX


# The door


def door() -> SessionAuthenticator:
    return SessionAuthenticator(seal_of(), "me", random.Random(1))


def from_session(session: bytes, counter: int = 0) -> Opened:
    return Opened(b"", key_id(KEYS[0]), session, counter)


def test_a_stranger_may_ping_and_is_challenged_once_a_second() -> None:
    keeper, stranger = door(), from_session(b"stranger")
    said = (Ping(1, "me", "a"), Dead("b", 10, "a"))
    admitted, challenge = keeper.admit(stranger, said, ELSEWHERE, 1.0)
    assert admitted == (Ping(1, "me", "a"),)
    assert challenge is not None
    assert (challenge.target, challenge.source) == ("a", "me")
    assert keeper.counters["messages_of_strangers"] == 1
    assert keeper.admit(stranger, said, ELSEWHERE, 1.5)[1] is None
    wrong = (Ack(challenge.sequence + 1, "a"), Dead("b", 10, "a"))
    assert keeper.admit(stranger, wrong, ELSEWHERE, 1.6)[0] == ()
    other = keeper.admit(from_session(b"somebody"), (Ack(challenge.sequence, "a"),), ELSEWHERE, 1.7)
    assert other[0] == ()
    right = (Ack(challenge.sequence, "a"), Dead("b", 10, "a"))
    assert keeper.admit(stranger, right, ELSEWHERE, 1.8) == (right, None)


def test_a_live_member_of_the_table_is_admitted() -> None:
    keeper, member = door(), peer("a")
    said = (Dead("b", 10, "a"),)
    keeper.changed(Change(member, None))
    assert keeper.admit(from_session(member.uid), said, ELSEWHERE, 1.0)[0] == said
    keeper.changed(Change(peer("a", state=State.DEAD), State.ALIVE))
    assert keeper.admit(from_session(member.uid), said, ELSEWHERE, 1.0)[0] == ()


def test_a_proof_closes_the_window_below_it() -> None:
    keeper = door()
    seal = seal_of(b"stranger")
    captured = seal.seal(wire.encode_datagram([Dead("a", 1, "b")]))
    stranger = from_session(b"stranger", 9)
    _, challenge = keeper.admit(stranger, (Ping(1, "me", "a"),), ELSEWHERE, 1.0)
    assert challenge is not None
    keeper.admit(stranger, (Ack(challenge.sequence, "a"),), ELSEWHERE, 1.1)
    assert keeper.open(captured) is None
    assert keeper.counters["packets_repeated"] == 1


# The way in


def test_only_allowed_networks_count_for_senders_and_claimed_addresses() -> None:
    ingress = Ingress(["10.0.0.0/8"])
    here = wire.encode_datagram([alive("a"), Alive("b", b"uid-b---", 1, ELSEWHERE, b"")])
    admitted, _ = ingress.datagram(here, address_of("a"), 0.0)
    assert [message.name for message in admitted if isinstance(message, Alive)] == ["a"]
    assert ingress.datagram(here, ELSEWHERE, 0.0) == ((), None)
    assert ingress.counters["packets_not_allowed"] == ingress.counters["members_not_allowed"] == 1
    table = ingress.table(Sync("a", (peer("a"),)))
    assert isinstance(table, Sync)
    assert table.members == (peer("a"),)
    assert not ingress.permits("not an address")
    with pytest.raises(ConfigError, match="allow"):
        Ingress(["nowhere"])


def test_18_an_unknown_sender_gets_no_more_bytes_than_it_sent() -> None:
    swim = machine(*"abcdefgh")
    for name in "abcdefgh":
        swim.membership.queue.put(alive(name))
    for said in (Ping(1, "me", "x"), Ping(1, "you", "x"), Ping(1, "me", "a")):
        effects = swim.step(_received(said), 1.0)
        for effect in effects:
            answer = wire.encode_datagram(effect.messages)
            assert len(answer) <= len(wire.encode_datagram([said]))


def _received(said: Ping) -> object:
    from gossip.protocol.events import Received

    return Received(ELSEWHERE, (said,))


def test_a_key_is_not_shown_with_its_message() -> None:
    assert repr(KEYS[1]) not in repr(KeyChange(KeyVerb.INSTALL, KEYS[1]))


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_38_noise_never_raises_without_a_key_either(packets: list[bytes]) -> None:
    swim, ingress = machine("a"), Ingress(())
    for packet in packets:
        messages, _ = ingress.datagram(packet, address_of("a"), 1.0)
        hear(swim, "a", *messages)
    assert state_of(swim, "a") is State.ALIVE
