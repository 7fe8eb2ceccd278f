"""An instant has the same answer for ever, whichever node owns the slot by then (rule R5)."""

from docstore.documents.events import ReadIndexAsked, Requested
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from tests.docstore.documents.trio import NAMES, Trio

HOUR_US = 3_600_000_000


def opened() -> Trio:
    """Return three replicas of one slot, with an owner that has decided one row."""
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    write(trio, 1)
    assert trio.run_until(lambda: trio.answers, 1)
    return trio


def write(trio: Trio, number: int) -> None:
    put = Operation(verb="PUT", link="/t/1", body=b'{"n":%d}' % number, creates=True)
    trio.feed(trio.owner(), Requested(number, put, trio.now + 10))


def ask(trio: Trio, number: int, at_us: int) -> None:
    read = Operation(verb="GET", link="/t/1", select=("at", at_us))
    trio.feed(trio.owner(), Requested(number, read, trio.now + 10))


def answer_to(trio: Trio, number: int) -> Answer:
    assert trio.run_until(lambda: number in answers(trio), 5)
    return answers(trio)[number]


def answers(trio: Trio) -> dict[int, Answer]:
    return {respond.request: respond.outcome for _, respond in trio.answers}


def written(trio: Trio, number: int) -> Row:
    row = answer_to(trio, number).row
    assert row is not None
    return row


def clock_of(trio: Trio) -> int:
    return trio.replicas[trio.owner()].core.wall_now_us()


def test_pending_rows_up_to_the_instant_are_decided_first() -> None:
    trio = opened()
    trio.sync_s = dict.fromkeys(NAMES, 1.0)
    write(trio, 2)
    ask(trio, 3, trio.replicas[trio.owner()].core.logs[0].updated_us)
    assert answer_to(trio, 3).row == written(trio, 2)
    trio.sync_s = dict.fromkeys(NAMES, 1.0)
    write(trio, 4)
    ask(trio, 5, written(trio, 2).updated_us)  # The pending row is later: no need to wait.
    assert trio.run_until(lambda: 5 in answers(trio), 0.5)
    assert written(trio, 5) == written(trio, 2)


def test_no_later_row_has_an_instant_that_was_answered() -> None:
    trio = opened()
    now_us = clock_of(trio)
    ask(trio, 2, now_us)
    answer_to(trio, 2)
    trio.ahead_us.update(dict.fromkeys(NAMES, -HOUR_US))
    assert trio.run_until(lambda: clock_of(trio) < now_us, 1)
    write(trio, 3)
    assert written(trio, 3).updated_us > now_us
    ask(trio, 4, now_us)
    assert written(trio, 4) == written(trio, 2)


def take_over(trio: Trio) -> None:
    """Have another node become owner, and the earlier owner come back."""
    before = trio.owner()
    trio.cut_off.add(before)
    others = [name for name in NAMES if name != before]

    def owns() -> bool:
        return any(trio.replicas[each].core.logs[0].open_term for each in others)

    assert trio.run_until(owns, 20)
    trio.restart(before)
    trio.cut_off.clear()
    assert trio.run_until(lambda: trio.owner() in others, 20)


def test_an_owner_with_a_late_clock_stamps_no_row_with_an_answered_instant() -> None:
    trio = opened()
    now_us = clock_of(trio)
    ask(trio, 2, now_us)
    answer_to(trio, 2)
    # All clocks are behind now: only the notes of the replicas show the instant.
    trio.ahead_us.update(dict.fromkeys(NAMES, -HOUR_US))
    take_over(trio)
    write(trio, 3)
    assert now_us < written(trio, 3).updated_us < now_us + HOUR_US
    ask(trio, 4, now_us)
    assert written(trio, 4) == written(trio, 2)


def test_a_replica_that_has_lost_its_notes_goes_by_its_clock() -> None:
    trio = opened()
    others = [name for name in NAMES if name != trio.owner()]
    now_us = clock_of(trio)
    ask(trio, 2, now_us)
    answer_to(trio, 2)
    for name in others:
        trio.restart(name)
    trio.ahead_us[min(others)] = trio.ahead_us[trio.owner()] = -HOUR_US
    take_over(trio)
    write(trio, 3)
    assert written(trio, 3).updated_us > now_us


def test_an_instant_in_the_future_is_refused() -> None:
    trio = opened()
    ask(trio, 2, clock_of(trio) + 1_000_000)
    assert trio.run_until(lambda: 2 in answers(trio), 1)
    refused = answers(trio)[2]
    assert (refused.status, refused.code) == (400, "malformed")
    assert "yet to come" in refused.detail
    # A row that is later than the clock is found.
    ask(trio, 3, written(trio, 1).updated_us)
    assert written(trio, 3) == written(trio, 1)


def test_a_cut_at_an_instant_leaves_out_slots_in_which_it_is_not_settled() -> None:
    trio = opened()
    owner = trio.owner()
    log = trio.replicas[owner].core.logs[0]
    trio.sync_s = dict.fromkeys(NAMES, 1.0)
    write(trio, 2)
    at_us, before = log.updated_us, log.decided
    for number, instant in enumerate((at_us - 1, at_us, at_us + HOUR_US)):
        trio.feed(owner, ReadIndexAsked(number, [0], trio.now + 5, instant))
    assert trio.run_until(lambda: len(trio.indexes) == 3, 1)
    epoch = log.promised[0]
    assert trio.indexes == {0: {0: (epoch, before)}, 1: {}, 2: {}}
    answer_to(trio, 2)
    trio.feed(owner, ReadIndexAsked(3, [0], trio.now + 5, at_us))
    assert trio.run_until(lambda: 3 in trio.indexes, 1)
    assert trio.indexes[3] == {0: (epoch, before + 1)}
