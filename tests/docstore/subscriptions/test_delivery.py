"""The rules of a delivery (WH1 to WH9): each in a script, and all of them by seeds."""

import pickle
from collections import Counter
from random import Random
from typing import Any

import pytest

from docstore.services.subscriptions import Mark, Replay, SubscriptionPhase
from docstore.subscriptions import delivery
from docstore.subscriptions.delivery import Delivery
from docstore.subscriptions.effects import Call, Confirm, Effect, Leave, Read, Save, Wait
from docstore.subscriptions.events import (
    BatchReceived,
    Began,
    Called,
    Confirmed,
    Event,
    HistoryGone,
    ReadFailed,
    Saved,
    Unchanged,
    Unsaved,
    Woken,
)
from tests.docstore.subscriptions.world import RETRY_S, World, subscription

GOOD = Confirmed(is_same=True, may_read=True)
TAKEN, FAILED = Called(204), Called(500)


class Talk:
    """A delivery that gets one event after the other."""

    def __init__(self, **members: Any) -> None:
        self.now = 100.0
        self.delivery = Delivery(RETRY_S, Random(1))
        self.last: Effect = self.tell(Began(subscription(**members)))

    def tell(self, event: Event, *, after_s: float = 0.0) -> Effect:
        self.now += after_s
        self.last = self.delivery.step(event, self.now)
        return self.last

    def bring(self, *lines: str, until: str) -> Effect:
        """Give it lines, and return its call."""
        text = "".join(f"{line}\n" for line in lines).encode()
        assert self.tell(BatchReceived(text, len(lines), Mark(until))) == Confirm()
        return self.tell(GOOD)


def test_a_delivery_begins_at_the_mark_of_the_document() -> None:
    assert Talk(mark=Mark("7")).last == Read(Mark("7"), delivery.ROWS_MAX)
    replay = Mark("7", Replay("/a", "/a/1", 3))
    assert Talk(mark=replay).last == Read(replay, delivery.ROWS_MAX)


@pytest.mark.parametrize("phase", [SubscriptionPhase.PAUSED, SubscriptionPhase.ENDED])
def test_a_subscription_that_is_not_active_is_left(phase: SubscriptionPhase) -> None:
    assert Talk(phase=phase).last == Leave()


def test_wh1_the_next_lines_are_read_once_these_are_taken() -> None:
    talk = Talk()
    assert talk.bring("x", until="1") == Call(b"x\n", Mark("0"), Mark("1"))
    assert talk.tell(TAKEN) == Read(Mark("1"), delivery.ROWS_MAX)


def test_wh1_a_failed_call_is_repeated_unchanged() -> None:
    talk = Talk()
    call = talk.bring("x", "y", until="2")
    assert isinstance(talk.tell(FAILED), Wait)
    assert talk.tell(Woken()) == Confirm()
    assert talk.tell(GOOD) == call


def test_wh2_no_call_is_made_for_a_changed_document() -> None:
    talk = Talk()
    talk.tell(BatchReceived(b"x\n", 1, Mark("1")))
    assert talk.tell(Confirmed(is_same=False, may_read=True)) == Leave()


def test_wh2_the_mark_is_saved_before_leaving() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    talk.tell(TAKEN)
    talk.tell(BatchReceived(b"y\n", 1, Mark("2")))
    save = talk.tell(Confirmed(is_same=False, may_read=True))
    assert isinstance(save, Save)
    assert (save.change["kind"], save.change["position"]) == ("AdvanceRequest", "1")
    assert talk.tell(Saved()) == Leave()


def test_wh2_each_attempt_is_confirmed() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    talk.tell(FAILED)
    assert talk.tell(Woken(), after_s=2) == Confirm()


def test_wh3_a_user_without_the_right_to_read_gets_no_call() -> None:
    talk = Talk()
    talk.tell(BatchReceived(b"x\n", 1, Mark("1")))
    save = talk.tell(Confirmed(is_same=True, may_read=False))
    assert isinstance(save, Save)
    assert (save.change["kind"], save.change["position"]) == ("PauseRequest", "0")
    assert talk.tell(Saved()) == Leave()


def test_wh4_the_mark_waits_for_a_failed_call() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    talk.tell(FAILED)
    assert talk.tell(Woken(leaves=True)) == Leave(), "there is nothing to save"


def test_wh5_the_mark_is_saved_after_a_while() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    assert isinstance(talk.tell(TAKEN, after_s=delivery.SAVE_S - 0.1), Read)
    talk.bring("y", until="2")
    save = talk.tell(TAKEN, after_s=0.1)
    assert isinstance(save, Save)
    assert (save.change["position"], save.change["delivered"]) == ("2", 2)
    assert talk.tell(Saved()) == Read(Mark("2"), delivery.ROWS_MAX)


def test_wh5_the_mark_is_saved_though_no_change_follows() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    talk.tell(TAKEN)
    wait = talk.tell(BatchReceived(b"", 0, Mark("1")))
    assert wait == Wait(100 + delivery.SAVE_S, for_news=True)
    talk.tell(Woken(), after_s=delivery.SAVE_S)
    assert isinstance(talk.tell(BatchReceived(b"", 0, Mark("1"))), Save)


def test_wh5_a_mark_after_unmatched_changes_is_saved_seldom() -> None:
    talk = Talk()
    wait = talk.tell(BatchReceived(b"", 0, Mark("1")))
    assert wait == Wait(100 + delivery.SAVE_IDLE_S, for_news=True)
    talk.tell(Woken(), after_s=delivery.SAVE_IDLE_S - 1)
    assert isinstance(talk.tell(BatchReceived(b"", 0, Mark("2"))), Wait)
    talk.tell(Woken(), after_s=1)
    save = talk.tell(BatchReceived(b"", 0, Mark("3")))
    assert isinstance(save, Save)
    assert save.change["position"] == "3"


def test_wh5_a_save_of_unknown_fate_ends_the_run() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    talk.tell(TAKEN, after_s=delivery.SAVE_S)
    assert talk.tell(Unsaved()) == Leave()


def test_wh5_taken_changes_are_remembered_while_they_cannot_be_saved() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    assert isinstance(talk.tell(TAKEN, after_s=delivery.SAVE_S), Save)
    assert talk.tell(Unchanged()) == Read(Mark("1"), delivery.ROWS_MAX)
    assert talk.tell(BatchReceived(b"", 0, Mark("1"))) == Wait(
        talk.now + delivery.SAVE_S, for_news=True
    )
    talk.tell(Woken(), after_s=delivery.SAVE_S)
    save = talk.tell(BatchReceived(b"", 0, Mark("1")))
    assert isinstance(save, Save)
    assert (save.change["position"], save.change["delivered"]) == ("1", 1)


def test_wh5_a_leaving_run_does_not_wait_until_the_mark_can_be_saved() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    talk.tell(TAKEN)
    talk.tell(BatchReceived(b"y\n", 1, Mark("2")))
    assert isinstance(talk.tell(Confirmed(is_same=False, may_read=True)), Save)
    assert talk.tell(Unchanged()) == Leave()


def test_wh7_a_receiver_that_answered_410_is_not_called_while_that_cannot_be_saved() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    save = talk.tell(Called(410))
    for _ in range(3):
        assert talk.tell(Unchanged()) == Wait(talk.now + delivery.READ_AGAIN_S)
        assert talk.tell(Woken()) == save
    talk.tell(Unchanged())
    assert talk.tell(Woken(leaves=True)) == Leave()


def test_wh6_pauses_between_attempts_grow_up_to_a_maximum_number() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    pauses_s = []
    for _ in range(delivery.FAILURES_MAX - 1):
        wait = talk.tell(FAILED)
        assert isinstance(wait, Wait)
        assert not wait.for_news
        pauses_s.append(wait.until - talk.now)
        talk.tell(Woken(), after_s=pauses_s[-1])
        talk.tell(GOOD)
    for n, pause_s in enumerate(pauses_s):
        least_s = RETRY_S * delivery.LATER**n
        assert least_s <= pause_s <= 1.2 * least_s
    save = talk.tell(FAILED)
    assert isinstance(save, Save)
    assert (save.change["kind"], save.change["position"]) == ("PauseRequest", "0")
    assert save.change["why"] == "its receiver has failed 5 times: it answers 500"
    assert talk.tell(Saved()) == Leave()


def test_wh6_a_taken_call_resets_the_count_of_failures() -> None:
    talk = Talk()
    for n in range(3 * delivery.FAILURES_MAX):
        talk.bring(str(n), until=str(n + 1))
        assert isinstance(talk.tell(FAILED), Wait)
        talk.tell(Woken())
        talk.tell(GOOD)
        assert not isinstance(talk.tell(TAKEN), Wait)


def test_wh6_failed_reads_are_no_failures_of_the_receiver() -> None:
    talk = Talk()
    for _ in range(2 * delivery.FAILURES_MAX):
        assert talk.tell(ReadFailed("no quorum")) == Wait(talk.now + delivery.READ_AGAIN_S)
        assert isinstance(talk.tell(Woken()), Read)


def test_wh7_a_receiver_ends_its_subscription() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    save = talk.tell(Called(410))
    assert isinstance(save, Save)
    assert (save.change["kind"], save.change["position"]) == ("EndRequest", "0")
    assert talk.tell(Saved()) == Leave()


def test_wh7_trimmed_history_ends_the_subscription() -> None:
    save = Talk().tell(HistoryGone("rows were let go of", "~token"))
    assert isinstance(save, Save)
    assert save.change["kind"] == "EndRequest"
    assert (save.change["why"], save.change["earliest"]) == ("rows were let go of", "~token")


def test_wh8_fewer_rows_are_read_while_they_are_too_large() -> None:
    talk = Talk()
    large = BatchReceived(b"x" * (delivery.BYTES_MAX + 1), 100, Mark("100"))
    rows = [talk.last.rows] if isinstance(talk.last, Read) else []
    while isinstance(read := talk.tell(large), Read):
        assert read.mark == Mark("0")
        rows.append(read.rows)
    assert rows == [100, 50, 25, 12, 6, 3, 1], "a single document may be of any size"
    assert read == Confirm()
    talk.tell(GOOD)
    assert talk.tell(TAKEN) == Read(Mark("100"), 2), "and then more again"


@pytest.mark.parametrize("trouble", [FAILED, ReadFailed("no quorum")])
def test_wh9_large_lines_are_read_again_for_a_retry(trouble: Event) -> None:
    talk = Talk()
    talk.tell(BatchReceived(b"x" * (delivery.KEPT_BYTES_MAX + 1), 2, Mark("2")))
    if trouble == FAILED:
        talk.tell(GOOD)
    assert isinstance(talk.tell(trouble), Wait)
    assert len(pickle.dumps(talk.delivery)) < delivery.KEPT_BYTES_MAX
    assert talk.tell(Woken()) == Read(Mark("0"), delivery.ROWS_MAX), "nothing was taken"


def test_a_replay_runs_to_its_end_and_saves_the_mark() -> None:
    talk = Talk(mark=Mark("7", Replay()))
    assert talk.tell(BatchReceived(b"", 0, Mark("7", Replay("/a/b")))) == Read(
        Mark("7", Replay("/a/b")), delivery.ROWS_MAX
    )
    save = talk.tell(BatchReceived(b"", 0, Mark("7")))
    assert isinstance(save, Save)
    assert save.change["replay"] is None
    assert talk.tell(Saved()) == Read(Mark("7"), delivery.ROWS_MAX)


def test_a_delivery_lags_until_all_changes_are_taken() -> None:
    talk = Talk()
    talk.bring("x", until="1")
    talk.tell(FAILED, after_s=3)
    assert talk.delivery.behind_since == 100
    talk.tell(Woken())
    talk.tell(GOOD)
    talk.tell(TAKEN)
    talk.tell(BatchReceived(b"", 0, Mark("1")))
    assert talk.delivery.behind_since is None


def test_a_delivery_that_cannot_read_lags() -> None:
    talk = Talk()
    talk.tell(ReadFailed("no quorum"))
    talk.tell(Woken(), after_s=60)
    talk.tell(ReadFailed("no quorum"))
    assert talk.delivery.behind_since == 100
    talk.tell(BatchReceived(b"", 0, Mark("0")))
    assert talk.delivery.behind_since is None


@pytest.fixture
def a_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "KEPT_BYTES_MAX", 20)  # Some five lines of a world.


@pytest.mark.usefixtures("a_little_is_kept")
@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_missing_by_seed(seed: int) -> None:
    play(seed)


@pytest.mark.thorough
@pytest.mark.usefixtures("a_little_is_kept")
def test_nothing_is_missing_by_many_seeds() -> None:
    seen = sum((play(seed) for seed in range(6, 100)), Counter[str]())
    assert min(seen[each] for each in ("ReadFailed", "Saved", "Unsaved", "Unchanged")) > 10


def play(seed: int) -> Counter[str]:
    """Play a seed, and return how often each event came."""
    world = World(seed)
    for _ in range(1500):
        world.turn()
    world.check()
    world.is_dead = False
    for _ in range(4000):  # Without further faults it comes to the end.
        if world.about.phase is SubscriptionPhase.PAUSED:
            world.change({"kind": "ResumeRequest"})
        world.now += 1
        if world.owner is None and world.about.phase is SubscriptionPhase.ACTIVE:
            world.turn()
        elif world.owner is not None:
            world.perform(world.owner)
    world.check()
    taken = {n for batch in world.taken for n in batch}
    assert taken >= set(range(1, len(world.log) - 200, 2))
    assert world.seen["Called"] > 10
    return world.seen
