"""A campaign and its lease: the order of the requests to both, and why the answer is right.

A lease that shares the partition key of the election (`paths.partition_key`) lies in its slot. Then
the owner checks the lease in the step that changes the queue (rule A4, `_together`): one row, and
no candidate enters after the end of its lease. If the lease does not list the election yet, the
node asks it to do so, and repeats the campaign.

The rest is about leases in other slots. Normally the node asks the lease first (`attaching.py`).
When the lease has listed the election, the node puts the candidate into the queue. A client that
takes the same lock under the same lease many times would wait each time for the lease to answer
that nothing changed. So a node remembers for a few seconds which leases have listed which elections
and locks, and asks such a lease at the same time as the queue (`_beside`). The client's answer
waits for both: 410 if the lease has ended, as in the sequential case. Nothing else changes, for
these reasons:

The lease lists the election. The sweep of an ended lease follows its list: at the end, and for the
last time 65 s later; only then is the lease deleted. An election or a lock never leaves a list
earlier, since DetachRequest is refused for them. So the last sweep finds every candidate that
entered the queue before it. A cache entry was true at a moment after `since`, when the lease was
asked. A campaign runs concurrently only if the age of the entry and the time limit of the campaign
add up to at most 60 s, which is also the maximum time limit of a sequential campaign. So no
candidate enters the queue later than a sequential one could, and no guarantee depends on this
node: it may crash between the two requests, or get no answer to them.

The lease ends meanwhile. The lease is asked after the campaign arrived, and a majority confirms its
answer. If the lease has ended, the candidate may be in the queue, as if the lease had ended between
two sequential requests. The node then removes the candidate before it answers 410; if the node
crashes, the sweep removes it. Only candidates of a lease that has *ended* are removed: the holder
of an expiring lease may still believe that it holds the lock.

A lease with the same id. An id cannot be used again before its lease is deleted, 65 s after its
end, and no cache entry or request lives that long.

A missing answer. If the lease does not answer and the candidate may be in the queue, the campaign
is undecided: 504. A retry finds the candidate at the same place of the queue.

A refused campaign removes its cache entry, so a retry asks the lease first.
"""

from dataclasses import replace

from docstore.http.attaching import answer_of
from docstore.http.backend import Backend
from docstore.model import json
from docstore.model.operation import NOT_GIVEN, Answer, Conditions, Operation, undecided
from docstore.model.paths import partition_key
from docstore.ownership.by_store import Turns
from docstore.runtime.stepping import clock
from docstore.services.attachments import Attached, attach_request, has_ended
from docstore.services.lock_queue import gone_request, state_of

EMPTY = json.dump(state_of(Turns()))
UNDECIDED = undecided("the lease of the candidate could not be reached: retry")


class Campaigns:
    """Attaches each campaign to its lease, and puts its candidate into the queue."""

    def __init__(self, backend: Backend) -> None:
        self.attached = Attached(clock)
        self._backend = backend

    async def run(self, campaign: Operation, lease: str, timeout_s: float) -> Answer:
        """Return the answer of the queue, or the refusal of the lease."""
        if partition_key(lease) == partition_key(campaign.link):
            return await self._together(campaign, lease, timeout_s)
        if self.attached.allows(lease, campaign.link, timeout_s):
            return await self._beside(campaign, lease, timeout_s)
        return await self._after(campaign, lease, timeout_s)

    async def _together(self, campaign: Operation, lease: str, timeout_s: float) -> Answer:
        """Campaign on condition that the lease lists the election."""
        deadline = clock() + timeout_s
        attach = attach_request(lease, campaign.link)
        given = replace(campaign, given=(lease, attach.body))
        while (answer := await self._queue(given, deadline)).code == NOT_GIVEN:
            found = await self._backend.submit(attach, deadline - clock())
            if not found.is_success:
                return answer_of(found, lease)
        return answer_of(answer, lease) if answer.statuses else answer

    async def _after(self, campaign: Operation, lease: str, timeout_s: float) -> Answer:
        """Ask the lease first, and campaign if it accepts."""
        link, since = campaign.link, clock()
        found = await self._backend.submit(attach_request(lease, link), timeout_s)
        if not found.is_success:
            return answer_of(found, lease)
        self.attached.note(lease, link, since)
        return await self._queue(campaign, since + timeout_s)

    async def _beside(self, campaign: Operation, lease: str, timeout_s: float) -> Answer:
        link, since = campaign.link, clock()
        deadline = since + timeout_s
        asked = self._backend.submit(attach_request(lease, link), timeout_s)
        answer = await self._queue(campaign, deadline)
        found = await asked
        if found.is_success:
            self.attached.note(lease, link, since)
            return answer
        self.attached.forget(lease, link)
        if answer.is_success or answer.unknown:
            if has_ended(found):
                await self._backend.submit(gone_request(link, lease), deadline - clock())
            elif found.status >= 500:
                return UNDECIDED
        return answer_of(found, lease)

    async def _queue(self, campaign: Operation, deadline: float) -> Answer:
        """Put a candidate into the queue, and create the queue if it is missing or deleted."""
        submit, link = self._backend.submit, campaign.link
        made = Operation(
            verb="PUT", link=link, body=EMPTY, conditions=Conditions(none_match="*"), creates=True
        )
        while True:
            answer = await submit(campaign, deadline - clock())
            # A repeated answer shows the queue as it was at the first attempt: read it again.
            if answer.code == "repeated":
                return await submit(Operation(verb="GET", link=link), deadline - clock())
            is_missing = answer.status == 404 and not answer.statuses
            if not is_missing or campaign.conditions is not None or clock() >= deadline:
                return answer
            answer = await submit(made, deadline - clock())
            if not answer.is_success and answer.status != 412:
                return answer
