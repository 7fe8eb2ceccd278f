"""A campaign sent together with its lease's request gets the same answers as after it."""

import asyncio

import pytest

from docstore.http.campaigns import Campaigns
from docstore.http.headers import TIMEOUT_MS_MAX
from docstore.model import json
from docstore.model.operation import NOT_GIVEN, Answer, Operation
from docstore.ownership.by_store import Candidate, Turns
from docstore.services.attachments import LATE_S_MAX, REMEMBERED_MAX, REMEMBERED_S, Attached
from docstore.services.leases import ATTACHED_MAX, LeasePhase, LeaseState
from docstore.services.lock_queue import turns_of
from docstore.sessions.timing import SessionsConfig
from tests.docstore.http.single import SingleNode

LINK, LEASE = "/core/locks/billing", "/core/leases/a"
ACQUIRE = {"kind": "AcquireRequest", "candidate": "a", "lease": LEASE}
RELEASE = {"kind": "ReleaseRequest", "candidate": "a", "lease": LEASE}
SILENT = Answer(503, "no-owner", "no answer")


class Group(SingleNode):
    """One node, with a lease and a lock that was acquired under it and released."""

    async def begin(self) -> Campaigns:
        await self.change("PUT", LEASE, LeaseState(ttl_ms=1000).state())
        campaigns = Campaigns(self)
        assert (await campaigns.run(campaign(), LEASE, 1)).is_success
        await self.change("PATCH", LINK, RELEASE)
        return campaigns

    async def change(self, verb: str, link: str, state: object) -> None:
        operation = Operation(
            verb=verb, link=link, body=json.dump(state), media="handler", creates=True
        )
        assert (await self.submit(operation, 1)).is_success

    async def become(self, phase: LeasePhase) -> None:
        """Set the phase of the lease, as another client's request would."""
        await self.change(
            "PUT", LEASE, LeaseState(ttl_ms=1000, attached=(LINK,), phase=phase).state()
        )

    @property
    def turns(self) -> Turns:
        return turns_of(json.load(self.histories[LINK][-1].state))


def campaign() -> Operation:
    return Operation(verb="PATCH", link=LINK, body=json.dump(ACQUIRE), media="handler")


@pytest.fixture
def group() -> Group:
    return Group()


async def test_a_campaign_enters_the_queue_before_its_lease_answers_and_returns_after(
    group: Group,
) -> None:
    campaigns = await group.begin()
    silence: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    group.waits = [silence]
    running = asyncio.ensure_future(campaigns.run(campaign(), LEASE, 1))
    await asyncio.sleep(0)
    assert group.turns.holder == Candidate("a", LEASE)
    await asyncio.sleep(0)
    assert not running.done()
    silence.set_result(None)
    assert (await running).is_success


async def test_the_first_campaign_waits_for_its_lease(group: Group) -> None:
    await group.change("PUT", LEASE, LeaseState(ttl_ms=1000).state())
    silence: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    group.waits = [silence]
    running = asyncio.ensure_future(Campaigns(group).run(campaign(), LEASE, 1))
    await asyncio.sleep(0)
    assert LINK not in group.histories
    silence.set_result(None)
    assert (await running).is_success


async def test_a_campaign_under_an_ended_lease_is_410_and_leaves_no_candidate(
    group: Group,
) -> None:
    campaigns = await group.begin()
    await group.become(LeasePhase.ENDED)
    answer = await campaigns.run(campaign(), LEASE, 1)
    assert (answer.status, answer.code) == (410, "lease-ended")
    assert (group.turns.holder, group.turns.queue) == (None, ())
    version = group.histories[LINK][-1].version
    assert (await campaigns.run(campaign(), LEASE, 1)).status == 410
    assert group.histories[LINK][-1].version == version  # The second campaign waited for its lease.


async def test_the_holder_under_an_expiring_lease_is_not_removed(group: Group) -> None:
    """The holder may believe that it holds until its lease has ended."""
    campaigns = await group.begin()
    assert (await campaigns.run(campaign(), LEASE, 1)).is_success
    await group.become(LeasePhase.EXPIRING)
    assert (await campaigns.run(campaign(), LEASE, 1)).code == "lease-ended"
    assert group.turns.holder == Candidate("a", LEASE)


async def test_a_campaign_without_an_answer_of_its_lease_is_unknown(
    group: Group,
) -> None:
    campaigns = await group.begin()
    group.answers = [SILENT]
    answer = await campaigns.run(campaign(), LEASE, 1)
    assert (answer.status, answer.unknown) == (504, True)
    assert group.turns.holder is not None
    group.answers = [SILENT]
    assert (await campaigns.run(campaign(), LEASE, 1)).code == "lease-not-reached"


async def test_a_refused_campaign_without_an_answer_of_its_lease_is_not_applied(
    group: Group,
) -> None:
    campaigns = await group.begin()
    group.answers = [SILENT, Answer(409, "queue-full", "too many")]
    assert (await campaigns.run(campaign(), LEASE, 1)).code == "lease-not-reached"


def test_an_attached_link_is_remembered_from_its_request_for_a_bounded_time() -> None:
    now = 100.0
    attached = Attached(clock=lambda: now)
    assert not attached.allows(LEASE, LINK, 1.0)
    attached.note(LEASE, LINK, since=now - 1.0)
    assert attached.allows(LEASE, LINK, 1.0)
    assert not attached.allows(LEASE, "/core/locks/other", 1.0)
    assert attached.allows(LEASE, LINK, LATE_S_MAX - 1.0)
    assert not attached.allows(LEASE, LINK, LATE_S_MAX - 0.5)
    now += REMEMBERED_S - 1.5
    assert attached.allows(LEASE, LINK, 1.0)
    now += 1.0
    assert not attached.allows(LEASE, LINK, 1.0)


def test_remembered_links_are_bounded() -> None:
    attached = Attached(clock=lambda: 0.0)
    links = [f"/core/locks/{number}" for number in range(REMEMBERED_MAX + 1)]
    for link in links:
        attached.note(LEASE, link, since=0.0)
    assert [attached.allows(LEASE, link, 1.0) for link in (links[0], links[1], links[-1])] == [
        False, True, True
    ]  # fmt: skip


def test_expired_links_are_forgotten() -> None:
    now = 0.0
    attached = Attached(clock=lambda: now)
    attached.note(LEASE, LINK, since=now)
    now += REMEMBERED_S + 1.0
    attached.note(LEASE, "/core/locks/other", since=now)
    assert len(attached) == 1


def test_no_candidate_enters_a_queue_after_the_last_sweep() -> None:
    """With these bounds the last sweep of an ended lease finds every candidate."""
    assert TIMEOUT_MS_MAX / 1000 == LATE_S_MAX
    assert SessionsConfig().passes_s[-1] > LATE_S_MAX


class Near(Group):
    """A lease in the slot of its lock."""

    lease = "/core/leases/billing~a"

    async def grant(self, lease: LeaseState) -> None:
        await self.change("PUT", self.lease, lease.state())

    async def run(self) -> Answer:
        """Campaign at a node that remembers no attached link."""
        asked = json.dump(ACQUIRE | {"lease": self.lease})
        operation = Operation(verb="PATCH", link=LINK, body=asked, media="handler")
        return await Campaigns(self).run(operation, self.lease, 1)

    def versions(self, link: str) -> int:
        return len(self.histories.get(link, []))


async def test_a_lease_in_the_slot_of_its_lock_is_attached_once_and_checked_with_the_queue() -> (
    None
):
    group = Near()
    await group.grant(LeaseState(ttl_ms=1000))
    assert (await group.run()).is_success
    assert group.turns.holder == Candidate("a", group.lease)
    assert (group.versions(group.lease), group.versions(LINK)) == (2, 2)
    await group.change("PATCH", LINK, RELEASE | {"lease": group.lease})
    silence: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    group.waits = [silence]
    running = asyncio.ensure_future(group.run())
    await asyncio.sleep(0)
    assert (group.versions(group.lease), group.versions(LINK)) == (2, 4), (
        "the lease is checked without another row"
    )
    silence.set_result(None)
    assert (await running).is_success


@pytest.mark.parametrize("phase", [LeasePhase.ENDED, LeasePhase.EXPIRING])
async def test_no_candidate_enters_under_an_ended_lease_in_the_slot(
    phase: LeasePhase,
) -> None:
    group = Near()
    await group.grant(LeaseState(ttl_ms=1000, attached=(LINK,), phase=phase))
    answer = await group.run()
    assert (answer.status, answer.code, answer.row) == (410, "lease-ended", None)
    assert group.versions(LINK) == 0


async def test_a_missing_or_full_lease_in_the_slot_refuses_the_campaign() -> None:
    group = Near()
    answer = await group.run()
    assert (answer.status, answer.code) == (404, "no-such-lease")
    many = tuple(f"/a/{number}" for number in range(ATTACHED_MAX))
    await group.grant(LeaseState(ttl_ms=1000, attached=many))
    assert (await group.run()).code == "too-many-attached"
    assert group.versions(LINK) == 0


async def test_a_silent_lease_in_the_slot_is_lease_not_reached() -> None:
    group = Near()
    group.answers = [Answer(412, NOT_GIVEN), SILENT]
    assert (await group.run()).code == "lease-not-reached"
