"""A campaign and its lease: which of the two is asked first, and why the answer is right.

A campaign goes to its lease first (`attaching.py`), and into the queue once the lease has the
election on its list. A client that takes the same lock under the same lease again and again waits
for an owner to say that nothing has changed. So a node remembers for a few seconds which leases had
which elections and locks on their lists, and asks such a lease *beside* the campaign. The answer
waits for both: 410 if the lease has ended, as before. Why nothing else changes:

It is on the list. A lease that has ended is swept by its list: at its end, and for the last time
65 s later; only then the lease is deleted. An election or a lock never leaves a list before that:
DetachRequest is refused for them. So the last pass finds every candidate that enters the queue
before it. An entry of the cache was true at a moment after `since`, when the lease was asked, and a
campaign goes beside only if the entry's age and its own time limit together are at most 60 s, which
the time limit of one that goes after may be as well. So no candidate enters later than it could
before, and no guarantee rests on this node: it may crash between the two, or get no answer of
either.

The lease ends meanwhile. It is asked after the campaign came in, and a majority confirms what it
says. If it has ended, the campaign may be in the queue all the same, as if the lease had ended
between the two, one after the other. Then it is taken out at once as the sweep would do it, before
the answer 410; if this node crashes, by the sweep. Only candidates of a lease that has *ended* are
taken out: the holder of a lease that is expiring may still believe.

A lease under the same id. An id is not given again before its lease is deleted, 65 s after its end,
and no cache entry or request lives that long.

An answer that is missing. If the lease is not reached and the campaign may be in the queue, it is
undecided: 504. A retry gets the same place.

A refused campaign leaves the cache, so a repeated attempt asks its lease first again.
"""

from docstore.http.attaching import answer_of
from docstore.http.backend import Backend
from docstore.model import json
from docstore.model.operation import Answer, Conditions, Operation
from docstore.ownership.by_store import Turns
from docstore.runtime.stepping import clock
from docstore.services.attachments import Attached, attach_request, has_ended
from docstore.services.turns import gone_request, state_of

EMPTY = json.dump(state_of(Turns()))
UNDECIDED = Answer(504, "undecided", "its lease was not reached: retry", unknown=True)


class Campaigns:
    """Takes campaigns to their leases and into their queues."""

    def __init__(self, backend: Backend) -> None:
        self.attached = Attached(clock)
        self._backend = backend

    async def run(self, campaign: Operation, lease: str, timeout_s: float) -> Answer:
        """Return what a campaign has come to, or why its lease does not let it."""
        if self.attached.allows(lease, campaign.link, timeout_s):
            return await self._beside(campaign, lease, timeout_s)
        return await self._after(campaign, lease, timeout_s)

    async def _after(self, campaign: Operation, lease: str, timeout_s: float) -> Answer:
        """Ask the lease, and then campaign."""
        link, since = campaign.link, clock()
        found = await self._backend.submit(attach_request(lease, link), timeout_s)
        if not found.is_success:
            return answer_of(found, lease)
        self.attached.note(lease, link, since)
        return await self._queue(campaign, since + timeout_s)

    async def _beside(self, campaign: Operation, lease: str, timeout_s: float) -> Answer:
        """Campaign while the lease is asked."""
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
        """Put a candidate into the queue; make one where there is none, again if it is deleted."""
        submit, link = self._backend.submit, campaign.link
        made = Operation(
            verb="PUT", link=link, body=EMPTY, conditions=Conditions(none_match="*"), creates=True
        )
        while True:
            answer = await submit(campaign, deadline - clock())
            if answer.code == "repeated":  # It says how things were when it came first.
                return await submit(Operation(verb="GET", link=link), deadline - clock())
            if answer.status != 404 or campaign.conditions is not None or clock() >= deadline:
                return answer
            answer = await submit(made, deadline - clock())
            if not answer.is_success and answer.status != 412:
                return answer
