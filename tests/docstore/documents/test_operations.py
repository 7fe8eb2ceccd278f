"""A log's memory of operations: it forgets them neither too early nor never (rule C1)."""

import itertools
import tracemalloc
from random import Random
from typing import Any

import pytest

from docstore.documents import keys
from docstore.documents.events import Requested
from docstore.documents.keys import KEY_LIFE_US, KEYS_PER_LINK_MAX, Keys
from docstore.documents.operations import UNREAD_MAX, Closed, Operations
from docstore.documents.timing import MemoryBounds
from docstore.model.document import Row
from docstore.model.identity import OperationIdentity
from docstore.model.operation import ANY_TOMBSTONE, Operation
from tests.docstore.documents.trio import NAMES, Trio

ORIGIN = ("n2", 9)
MINUTE_US = 60 * 1_000_000


def row(n: int, key: str, *, link: str = "/t/a", at_us: int = 0, seq: int | None = None) -> Row:
    identity = OperationIdentity(*ORIGIN, n if seq is None else seq, 0, key, 7)
    return Row(
        0, n, 1, "n1", link, n, "PUT", at_us, False, b"", identity.pack(), b"", b"{}"
    )  # fmt: skip


def noted(*rows: Row) -> Operations:
    found = Operations()
    found.note(rows)
    return found


def keys_of(found: Operations, *links: str) -> list[bool]:
    """Return for each link whether the key of the same name is known at the instant 0."""
    return [found.find_key(link, link, 0) is not None for link in links]


def test_keys_are_forgotten_after_ten_minutes_and_no_earlier() -> None:
    found = noted(
        *(row(n, f"/t/{n}", link=f"/t/{n}", at_us=2 * n * MINUTE_US) for n in range(4))
    )  # fmt: skip
    found.forget_keys(KEY_LIFE_US + 2 * MINUTE_US)
    assert keys_of(found, "/t/0", "/t/1", "/t/2", "/t/3") == [False, False, True, True]
    found.forget_keys(KEY_LIFE_US + 6 * MINUTE_US)
    assert keys_of(found, "/t/2", "/t/3") == [False, False]
    assert not found._keys, "expired keys take memory"


def test_a_key_that_is_used_again_lives_as_long_as_its_last_use() -> None:
    found = noted(row(1, "k"), row(2, "k", at_us=KEY_LIFE_US))
    found.forget_keys(KEY_LIFE_US)
    again = found.find_key("/t/a", "k", KEY_LIFE_US)
    assert again is not None
    assert again.n == 2
    found.forget_keys(2 * KEY_LIFE_US)
    assert found.find_key("/t/a", "k", 0) is None


def test_older_rows_that_are_read_later_leave_with_the_younger_ones() -> None:
    found = noted(row(2, "young", at_us=MINUTE_US), row(1, "old"))
    found.forget_keys(KEY_LIFE_US + MINUTE_US)
    assert not found._keys


def test_keys_of_rows_that_leave_the_log_leave_with_them() -> None:
    found = noted(row(1, "kept"), row(2, "cut", link="/t/b"))
    found.cut(1)
    assert found.find_key("/t/a", "kept", 0) is not None
    assert found.find_key("/t/b", "cut", 0) is None
    found.note([row(2, "cut", link="/t/b", at_us=MINUTE_US)])  # Another row, under another owner.
    found.forget_keys(KEY_LIFE_US)
    assert found.find_key("/t/b", "cut", 0) is not None


def test_a_link_has_room_for_keys_again_when_old_ones_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys, "KEYS_PER_LINK_MAX", 3)
    found = noted(*(row(n, f"k{n}", at_us=2 * n * MINUTE_US) for n in range(3)))
    found.note([row(n, "k", link=f"/t/{n}") for n in range(3, 300)])
    assert not found.has_room_for_key("/t/a", KEY_LIFE_US - 1)
    assert not found.has_room_for_key("/t/a", KEY_LIFE_US - 1)
    assert found.has_room_for_key("/t/b", KEY_LIFE_US - 1)
    assert found.keys_of("/t/a") == 3
    assert found.has_room_for_key("/t/a", KEY_LIFE_US)
    assert [found.find_key("/t/a", f"k{n}", 0) is not None for n in range(3)] == [False, True, True]
    assert found.keys_of("/t/a") == 2


def test_a_remembered_key_takes_some_forty_bytes() -> None:
    found, most = Keys(), 200_000
    texts = [f"{n:032x}" for n in range(most)]
    tracemalloc.start()
    for n, key in enumerate(texts, 1):
        found.note("/t/a", key, n, n, n * KEY_LIFE_US // most)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == found.count("/t/a") == most
    assert size / most < 50


@pytest.mark.parametrize("seed", range(5))
def test_keys_are_found_as_in_a_plain_dictionary(seed: int) -> None:
    rng, found, plain, at_us = Random(seed), Keys(), dict[tuple[str, str], tuple[int, int]](), 0
    for n in range(1, 3000):
        if rng.random() < 0.002:
            end = n - rng.randrange(50)
            found.cut(end)
            plain = {each: use for each, use in plain.items() if use[0] <= end}
        at_us += rng.randrange(MINUTE_US // 50)
        link, key = rng.choice(("/t/a", "/t/b")), f"k{rng.randrange(2000)}"
        if (link, key) not in plain or rng.random() < 0.5:
            found.note(link, key, n, n * 7, at_us)
            plain[link, key] = n, at_us
        found.forget(at_us)
    for (link, key), (n, used_us) in plain.items():
        use = found.find(link, key, at_us)
        if at_us < used_us + KEY_LIFE_US:
            assert use == (n, n * 7)
        elif at_us >= used_us + KEY_LIFE_US * 6 // 5:
            assert use is None
    assert found.find("/t/c", "k1", at_us) is None
    found.forget(at_us + 2 * KEY_LIFE_US)
    assert len(found) == 0


def test_all_keys_of_a_link_can_be_read_back_after_a_start() -> None:
    assert MemoryBounds().recall_rows >= KEYS_PER_LINK_MAX


def test_refusals_are_forgotten_by_the_next_refusal() -> None:
    closed = Closed()
    for seq in range(1000):
        closed.note(ORIGIN, seq, 1, max(0, seq - 3))
    assert list(closed._of[ORIGIN]) == [996, 997, 998, 999]
    assert closed.has(ORIGIN, 5, 1)
    assert closed.has(ORIGIN, 998, 1)
    assert not closed.has(ORIGIN, 998, 2)
    assert not closed.has(ORIGIN, 1000, 1)


def test_rows_below_the_oldest_open_operation_are_forgotten() -> None:
    found = noted(row(1, "", seq=5))
    assert found.find(ORIGIN, 5) == 1
    found.forget(ORIGIN, 6)
    assert found.find(ORIGIN, 5) is None
    assert found.is_over(ORIGIN, 5)


def test_all_replicas_forget_keys_of_a_slot_without_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys, "KEY_LIFE_US", 5_000_000)
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    trio.run_until(lambda: False, 0.2)  # By now all have looked at the wall clock.
    for number in range(20):
        asked = Operation(
            verb="PUT", link=f"/t/{number}", body=b"{}", creates=True, key=f"k{number}"
        )
        trio.feed(trio.owner(), Requested(number, asked, trio.now + 10))
    assert trio.run_until(lambda: len(trio.answers) == 20, 10)

    def known() -> list[int]:
        logs = [trio.replicas[name].core.logs[0] for name in NAMES]
        return [len(log.operations._keys) for log in logs]

    assert trio.run_until(lambda: known() == [20, 20, 20], 2), known()
    assert trio.run_until(lambda: known() == [0, 0, 0], 10), known()


@pytest.mark.parametrize("floor", [-1, 7])
def test_a_retry_gets_the_answer_of_its_first_attempt(floor: int) -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    for name in NAMES:  # Versions of purged tombstones are never given again.
        trio.replicas[name].core.logs[0].floor = floor
    numbers = itertools.count(1)

    def once(asked: Operation) -> tuple[int, int]:
        number = next(numbers)
        trio.feed(trio.owner(), Requested(number, asked, trio.now + 10))
        assert trio.run_until(lambda: len(trio.answers) == number, 10)
        answer = trio.answers[-1][1].outcome
        assert answer.row is not None
        return answer.status, answer.row.version

    def answered_twice(verb: str, key: str, **more: Any) -> tuple[int, int]:
        """Ask twice under one key; return the status and the version of both answers."""
        asked = Operation(verb=verb, link="/t/a", body=b'{"n":1}', key=key, **more)
        first = once(asked)
        assert once(asked) == first
        return first

    assert answered_twice("PUT", "new", creates=True) == (201, floor + 1)
    assert answered_twice("PUT", "changed", creates=True) == (200, floor + 2)
    assert answered_twice("DELETE", "gone") == (200, floor + 3)
    assert answered_twice("PUT", "again", creates=True) == (201, floor + 4)
    assert answered_twice("DELETE", "gone again") == (200, floor + 5)
    assert answered_twice("POST", "once more", recreate_below=ANY_TOMBSTONE) == (201, floor + 6)


def test_unread_rows_are_bounded_and_found() -> None:
    found = Operations()
    for n in range(1, 3 * UNREAD_MAX):
        found.note([row(n, "")])
        assert len(found._unread) < UNREAD_MAX
    assert [found.find(ORIGIN, n) for n in (1, UNREAD_MAX, 3 * UNREAD_MAX - 1)] == [
        1, UNREAD_MAX, 3 * UNREAD_MAX - 1,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_the_time_of_reading_rows_makes_no_difference(seed: int) -> None:
    rng, late, at_once, end = Random(seed), Operations(), Operations(), 0
    for _ in range(300):
        if rng.random() < 0.9:
            end += 1
            entry, seq = rng.choice(NAMES), rng.randrange(end, end + 5)
            oldest, key = max(0, seq - rng.randrange(1, 8)), rng.choice(("", "", "k", "l"))
            made = OperationIdentity(entry, 9, seq, oldest, key, 7)
            one = row(end, "", link=rng.choice(("/t/a", "/t/b")))._replace(operation=made.pack())
            for each in (late, at_once):
                each.note([one])
            at_once._read()
        else:
            end = rng.randrange(end, end - min(end, 4) - 1, -1)
            for each in (late, at_once):
                each.cut(end)
        if rng.random() < 0.1:
            assert _known(late, end) == _known(at_once, end)
    assert _known(late, end) == _known(at_once, end)


def _known(found: Operations, end: int) -> list[Any]:
    """Return the answers to all possible queries."""
    operations = [((name, 9), seq) for name in NAMES for seq in range(end + 6)]
    keys = [found.find_key(link, key, 0) for link in ("/t/a", "/t/b") for key in ("k", "l")]
    return [found.is_over(*each) or found.find(*each) for each in operations] + keys
