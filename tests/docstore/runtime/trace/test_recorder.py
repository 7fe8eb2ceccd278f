"""The ring: which steps it keeps, for how long, and without a document's content."""

import gc
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from docstore.documents.effects import Effect
from docstore.documents.events import Event, Requested
from docstore.machines.effects import Persist, Send
from docstore.machines.events import LinkLost, Received, Tick, TurnEnded
from docstore.model.document import Row
from docstore.model.operation import Operation
from docstore.model.slots import slot_of, to_bitmap
from docstore.runtime.trace import of_documents, of_machines, of_streams
from docstore.runtime.trace.lines import NOTHING, TraceFilter, is_about, line, traces_of
from docstore.runtime.trace.recorder import LAST, Recorder
from docstore.sessions.effects import SessionEffect
from docstore.sessions.events import SessionEvent
from docstore.storage.store import Append
from docstore.streams.effects import StreamEffect
from docstore.streams.events import ProduceAsked, StreamEvent
from docstore.subscriptions import events as subscriptions
from docstore.subscriptions.deliveries import DeliveryEffect, DeliveryEvent
from docstore.subscriptions.effects import Effect as SubscriptionEffect
from docstore.wire import link_messages as wire
from docstore.wire import streams_messages as streaming
from docstore.wire.messages import (
    Accepted,
    Evidence,
    Fetched,
    Heartbeat,
    Offer,
    Prepare,
    Promised,
    Propose,
)
from docstore.wire.sessions_messages import Calling

SECRET = b"top secret"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACE = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


def recorder(*, steps_a_tick: int = 1 << 30, **bounds: int) -> Recorder:
    return Recorder(of_documents.TABLE, steps_a_tick=steps_a_tick, **bounds)


def lines(kept: Recorder, about: TraceFilter | None = None) -> list[str]:
    asked = about or NOTHING
    return [line(each, asked) for each in kept.steps() if about is None or is_about(each, asked)]


def requested(number: int, link: str = "/notes/a", body: bytes = SECRET) -> Requested:
    return Requested(number, Operation(verb="PUT", link=link, body=body, trace=TRACE), 1.0)


def row(slot: int, n: int, link: str, state: bytes = SECRET) -> Row:
    return Row(slot, n, 3, "n1", link, n, "PUT", 0, False, b"", b"", b"", state)


def reachable(start: object) -> Iterator[object]:
    """Yield all that an object keeps alive, but for classes and callables."""
    todo, seen = [start], {id(start)}
    while todo:
        each = todo.pop()
        yield each
        for other in gc.get_referents(each):
            if id(other) not in seen and not isinstance(other, type) and not callable(other):
                seen.add(id(other))
                todo.append(other)


def types_in(*unions: Any) -> set[Any]:
    return {get_origin(each) or each for union in unions for each in get_args(union)}


def test_all_events_and_effects_can_be_kept() -> None:
    assert types_in(Event, Effect) <= of_documents.TABLE.keys()
    assert types_in(StreamEvent, StreamEffect, streaming.Streaming) <= of_streams.TABLE.keys()
    assert types_in(SessionEvent, SessionEffect, Calling) <= of_machines.SESSIONS.keys()
    webhooks = {DeliveryEvent, DeliveryEffect} | types_in(subscriptions.Event, SubscriptionEffect)
    assert webhooks <= of_machines.WEBHOOKS.keys()
    known = of_documents.TABLE.keys() | of_streams.TABLE.keys() | of_machines.SESSIONS.keys()
    assert set(get_args(wire.Message)) - known == {wire.RpcRequest, wire.RpcReply}


def test_the_newest_steps_are_kept_up_to_the_bound() -> None:
    kept = recorder(steps_max=50)
    for number in range(100):
        kept.note(float(number), requested(number), [])
        kept.note(float(number), LinkLost(f"n{number}"), [])
    found = list(kept.steps())
    assert [each.number for each in found] == sorted(each.number for each in found)
    asked = [line(each) for each in found if "Requested" in line(each)]
    assert [text.split()[1] for text in asked] == [f"request={n}" for n in range(50, 100)]
    assert sum("LinkLost" in line(each) for each in found) == 50


def test_under_load_a_part_of_the_steps_and_the_last_ones_are_kept() -> None:
    kept = recorder(steps_a_tick=10)
    for tick in range(3):
        kept.trim()
        for number in range(100 * tick, 100 * tick + 100):
            kept.note(float(number), requested(number), [])
    first = [*range(10), *range(100, 110), *range(200, 210)]
    found = list(kept.steps())
    assert [each.at for each in found] == [*map(float, [*first, *range(300 - LAST, 300)])]
    gaps = {each.at: each.left_out for each in found if each.left_out}
    assert gaps == {100.0: 90, 200.0: 90, 300.0 - LAST: 90 - LAST}


def test_requests_do_not_evict_changes_of_roles() -> None:
    kept = recorder(steps_max=10)
    kept.note(1.0, LinkLost("n3"), [])
    kept.note(2.0, Received("n2", Prepare(7, to_bitmap([5], 64))), [])
    for number in range(1000):
        kept.note(3.0, requested(number), [])
    assert lines(kept)[:2] == ["LinkLost peer=n3", "from n2 Prepare epoch=7 [slots=1]"]


def test_bodies_are_evicted_after_the_bound_of_later_bytes() -> None:
    kept = recorder(bytes_max=100_000)
    bodies = [b"%d" % number + bytes(30_000) for number in range(10)]
    for number, body in enumerate(bodies):
        kept.carried += len(body)
        kept.note(1.0, requested(number, body=body), [])
    kept.trim()
    held = {id(each) for each in reachable(kept) if isinstance(each, bytes)}
    assert [id(body) in held for body in bodies] == [False] * 6 + [True] * 4
    # A change of roles is kept for long, so its rows are shortened at once.
    kept.note(1.0, Received("n1", Fetched(0, 1, 1, [row(0, 1, "/notes/a", bodies[0])])), [])
    assert id(bodies[0]) not in {id(each) for each in reachable(kept)}
    assert "Fetched slot=0 epoch=1 first=1 [slot=0 n=1" in lines(kept)[-1]


def test_steps_about_many_slots_are_bounded_in_bytes() -> None:
    kept = recorder(bytes_max=100_000)
    evidence = [Evidence(slot, True, (1, "n1"), 5, 5, 0, ()) for slot in range(100)]
    for epoch in range(50):
        kept.note(1.0, Received("n2", Promised(epoch, evidence, [0] * 100)), [])
    assert 1 <= len(lines(kept)) < 10
    assert "Promised epoch=49" in lines(kept)[-1]


def test_unchanged_heartbeats_do_not_evict_other_steps() -> None:
    kept = recorder(steps_max=20)
    kept.note(0.0, requested(1), [])
    beat = Heartbeat([(3, to_bitmap([1], 8))], True, b"")
    for number in range(1000):
        now = beat._replace(wall_us=number, arrived=number)
        kept.note(1.0, Tick(number), [])
        kept.note(1.0, Tick(number), [Send("n2", now)])
        kept.note(1.0, TurnEnded(), [])
        kept.note(1.0, Received("n2", now), [])
    assert [text.split()[0] for text in lines(kept)] == ["Requested", "Tick", "from"]
    # But a heartbeat with other claims is kept.
    kept.note(2.0, Received("n2", beat._replace(claims=[(4, to_bitmap([1, 2], 8))])), [])
    assert lines(kept)[-1] == "from n2 Heartbeat fit=True [epoch=4 slots=2]"


def test_a_step_shows_numbers_and_names_but_no_content() -> None:
    kept = recorder()
    kept.note(1.0, requested(7), [])
    rows = [row(5, 41, "/notes/a"), row(6, 1, "/notes/b")]
    offers = [Offer(each.slot, 3, 0, each.n, (3, "n1"), each.n - 1, [each]) for each in rows]
    effects = [Send("n2", Propose(offers)), Persist(9, [Append(rows)])]
    kept.note(2.0, TurnEnded(), effects)
    asked, ended = lines(kept)
    assert asked == (
        f"Requested request=7 verb=PUT link=/notes/a level=3 bytes=10 trace={TRACE_ID}"
    )
    assert ended == (
        "TurnEnded => to n2 Propose number=0 [slot=5 epoch=3 first=41 decided=40, slot=6 epoch=3"
        " first=1 decided=0]; Persist token=9 [slot=5 n=41 epoch=3 owner=n1 link=/notes/a"
        " version=41, slot=6 n=1 epoch=3 owner=n1 link=/notes/b version=1]"
    )
    assert [traces_of(each) for each in kept.steps()] == [[TRACE_ID], []]


def test_steps_are_found_by_slot_and_by_link() -> None:
    kept, slots = recorder(), 64
    link, mine = "/notes/a", slot_of("/notes/a", 64)
    other = (mine + 1) % slots
    kept.note(1.0, requested(1, link), [])
    kept.note(2.0, Received("n2", Accepted([(other, 3, 8)])), [])
    kept.note(3.0, Received("n2", Accepted([(other, 3, 9), (mine, 3, 7)])), [])
    kept.note(4.0, Received("n2", Prepare(9, to_bitmap([mine], slots))), [])
    kept.note(5.0, TurnEnded(), [Persist(1, [Append([row(mine, 2, "/notes/z")])])])
    by_slot = [each.at for each in kept.steps() if is_about(each, TraceFilter(mine, slots))]
    assert by_slot == [1.0, 3.0, 4.0, 5.0]
    # By link: also steps about its slot alone, but none about another document of it.
    about = TraceFilter(mine, slots, link)
    assert [each.at for each in kept.steps() if is_about(each, about)] == [1.0, 3.0, 4.0]
    [_, accepted, _] = [line(each, about) for each in kept.steps() if is_about(each, about)]
    assert accepted.startswith(f"from n2 Accepted [slot={mine} ")


def test_the_selected_effects_are_shown_and_the_others_counted() -> None:
    """Shorten the step of a beginning term, which proposes to each peer for each slot."""
    kept = recorder()
    offers = [Offer(slot, 3, 0, 1, (3, "n1"), 0, []) for slot in range(100)]
    sends = [Send("n2", Propose([each])) for each in offers]
    kept.note(1.0, TurnEnded(), sends)
    [text] = lines(kept, TraceFilter(slot=70, slots=128))
    assert text.startswith("TurnEnded => to n2 Propose number=0 [slot=70 ")
    assert text.endswith("; 92 more")
    [all_alike] = lines(kept)
    assert all_alike.startswith("TurnEnded => to n2 Propose number=0 [slot=0 ")
    kept.note(2.0, TurnEnded(), sends[:8])
    *_, few = lines(kept, TraceFilter(slot=7, slots=128))
    assert "more" not in few


def test_steps_of_streams_are_found_by_partition_in_any_incarnation() -> None:
    kept = Recorder(of_streams.TABLE)
    link = "/core/streams/orders/partitions/3"
    sent: list[Any] = [("orders/3@a1", 2, 0, 5, 4, 0, 0, [SECRET])]
    kept.note(1.0, ProduceAsked(1, link, "committed", 9.0, (), 0, 1, SECRET, TRACE), [])
    kept.note(2.0, Received("n2", streaming.Append(sent)), [])
    kept.note(3.0, Received("n2", streaming.Acked([("orders/30@a1", 2, "c", 5, 0)])), [])
    about = TraceFilter(partition="orders/3", link=link)
    found = [line(each) for each in kept.steps() if is_about(each, about)]
    assert [text.split()[0] for text in found] == ["ProduceAsked", "from"]
    assert found[0].endswith(f"acks=committed records=1 bytes=10 trace={TRACE_ID}")
    assert found[1].endswith("[partition=orders/3@a1 epoch=2 base=0 first=5 high=4 bytes=10]")
