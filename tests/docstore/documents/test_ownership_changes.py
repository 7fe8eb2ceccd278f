"""Conclusions of timers about slots are drawn anew when the owners of the slots change."""

import pytest

from docstore.documents.owners import claimant
from docstore.machines.events import Received
from docstore.model.slots import to_bitmap
from docstore.wire.messages import HandOver, PreVote
from tests.docstore.documents.trio import NAMES, Trio


def test_an_opened_slot_is_claimed_though_heartbeats_left_before() -> None:
    trio = Trio()
    trio.sync_s = dict.fromkeys(NAMES, 0.08)  # So that heartbeats leave before it opens.
    assert trio.run_until(trio.owner, 10)
    owner = trio.owner()
    others = [trio.replicas[name].core for name in NAMES if name != owner]
    assert trio.run_until(lambda: all(claimant(core, 0) == owner for core in others), 1)


@pytest.fixture
def returned() -> tuple[Trio, str]:
    """Return a group whose preferred owner is back while another member owns the slot."""
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    preferred = trio.owner()
    trio.cut_off = {preferred}
    assert trio.run_until(lambda: trio.owner() not in {"", preferred}, 10)
    trio.cut_off = set()
    core = trio.replicas[preferred].core
    assert trio.run_until(lambda: claimant(core, 0) == trio.owner() and not core.logs.terms(), 3)
    trio.run_until(lambda: False, 0.2)
    return trio, preferred


def _votes_asked(trio: Trio, preferred: str) -> int:
    return sum(trio.sent[name, PreVote] for name in NAMES if name != preferred)


def test_a_handed_over_slot_is_campaigned_for_at_once(returned: tuple[Trio, str]) -> None:
    trio, preferred = returned
    before = _votes_asked(trio, preferred)
    trio.feed(preferred, Received(trio.owner(), HandOver(to_bitmap([0], 1))))
    assert _votes_asked(trio, preferred) == before + 2


def test_claims_of_others_are_forgotten_when_the_members_change(
    returned: tuple[Trio, str],
) -> None:
    trio, preferred = returned
    before = _votes_asked(trio, preferred)
    core = trio.replicas[preferred].core
    core.take_members(core.configuration)
    trio.replicas[preferred].takeover.consider()
    assert trio.run_until(lambda: _votes_asked(trio, preferred) == before + 2, 0.1)
