"""The delivery of one subscription by the owner of its document, step by step. Pure.

    Read -> Confirm -> Call -> (Save) -> Read ...

One effect is under way at a time, so none can overtake another. The rules:

    WH1  one call at a time; later changes are sent only once the receiver has taken these
    WH2  before each call a majority confirms that the document is active, unchanged and owned here
    WH3  before each call the creator must still be allowed to read what is sent
    WH4  the mark moves behind the changes that the receiver has taken, and nothing else moves it
    WH5  the mark is saved after a while, not each time, unless another node has moved it
    WH6  after each failure the pause is longer; after some failures the subscription is paused
    WH7  the answer 410 ends the subscription, and so does history that is gone
    WH8  one call has at most BYTES_MAX, unless a single document, or an atomic batch, has more
    WH9  a delivery that waits keeps little in memory, and reads larger batches again
"""

from random import Random
from typing import assert_never

from docstore.model.service import State
from docstore.services.subscriptions import (
    Mark,
    SubscriptionPhase,
    advance_request,
    end_request,
    pause_request,
)
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

ROWS_MAX, BYTES_MAX = 100, 512 << 10
"""Maximum rows and bytes of one call: half of the 1 MiB that common receivers accept by default."""
KEPT_BYTES_MAX = 64 << 10
"""Bytes that a waiting delivery may keep in memory: 1,000 deliveries take 64 MiB."""
FAILURES_MAX = 5
"""Consecutive failures after which the subscription is paused."""
LATER = 4
"""Factor by which each pause after a failure is longer than the previous one."""
READ_AGAIN_S = 1.0
"""Seconds until changes are read again after a failed read, which is no failure of the receiver."""
SAVE_S, SAVE_IDLE_S = 5.0, 60.0
"""Age at which a mark is saved: after a delivery, and after changes without a delivery."""
GONE = 410


class Delivery:
    """State of one subscription while this node delivers it."""

    def __init__(self, retry_s: float, rng: Random) -> None:
        """retry_s: the first pause after a failure. rng: makes each pause up to a fifth longer."""
        self._retry_s = retry_s
        self._rng = rng
        self.behind_since: float | None = None
        """Time since which the receiver may lack changes; None if it has taken all."""
        self._mark = self._saved = Mark("")
        self._saved_at = 0.0
        self._delivered = self._saved_delivered = 0
        self._rows = ROWS_MAX
        self._batch: BatchReceived | None = None
        """Changes of the next call, None until they are read."""
        self._failures = 0
        self._leaves = False
        """Whether to leave once the document is saved."""
        self._stop: State | None = None
        """The update that pauses or ends the subscription, retried until the document contains
        it."""

    def step(self, event: Event, now: float) -> Effect:
        """Return the next effect. now: seconds, of a monotonic clock."""
        match event:
            case Began():
                return self._begin(event, now)
            case BatchReceived():
                return self._came(event, now)
            case ReadFailed():
                self._lag(now)
                return self._wait(now + READ_AGAIN_S)
            case HistoryGone():  # WH7
                return self._stopped(
                    end_request(self._mark, self._delivered, event.why, event.earliest)
                )
            case Confirmed():
                return self._confirmed(event)
            case Called():
                return self._called(event, now)
            case Saved():
                self._saved, self._saved_delivered = self._mark, self._delivered
                return Leave() if self._leaves else self._read()
            case Unsaved():
                return Leave()
            case Unchanged():
                return self._unchanged(now)
            case Woken():
                return self._woken(event)
            case _:
                assert_never(event)

    def _begin(self, event: Began, now: float) -> Effect:
        found = event.subscription
        if found.phase is not SubscriptionPhase.ACTIVE:
            return Leave()
        self._mark = self._saved = found.mark
        self._saved_at = now
        self._delivered = self._saved_delivered = found.delivered
        return self._read()

    def _read(self) -> Effect:
        return Read(self._mark, self._rows)

    def _came(self, event: BatchReceived, now: float) -> Effect:
        if not event.rows:
            return self._passed_over(event.until, now)
        if len(event.lines) > BYTES_MAX and self._rows > 1:  # WH8
            self._rows //= 2
            return self._read()
        self._rows = min(ROWS_MAX, 2 * self._rows)
        self._lag(now)
        self._batch = event
        return Confirm()

    def _lag(self, now: float) -> None:
        if self.behind_since is None:
            self.behind_since = now

    def _passed_over(self, until: Mark, now: float) -> Effect:
        """Move the mark past changes that do not concern the receiver."""
        was_replayed = self._mark.replay is not None
        self._mark = until
        if was_replayed:
            return self._read() if until.replay is not None else self._save(now)
        self.behind_since = None
        if self._mark == self._saved:
            return Wait(now + SAVE_IDLE_S, for_news=True)
        has_taken = self._delivered > self._saved_delivered
        due = self._saved_at + (SAVE_S if has_taken else SAVE_IDLE_S)
        return self._save(now) if now >= due else Wait(due, for_news=True)

    def _confirmed(self, event: Confirmed) -> Effect:
        if not event.is_same:  # WH2
            return self._save_and_leave()
        if not event.may_read:  # WH3
            why = "its creator may no longer read all of its path"
            return self._stopped(pause_request(self._mark, self._delivered, why))
        assert self._batch is not None
        return Call(self._batch.lines, self._mark, self._batch.until)

    def _called(self, event: Called, now: float) -> Effect:
        assert self._batch is not None
        if 200 <= event.status < 300:
            self._mark, self._failures = self._batch.until, 0  # WH4
            self._delivered += self._batch.rows
            self._batch = None
            return self._save(now) if now - self._saved_at >= SAVE_S else self._read()  # WH5
        if event.status == GONE:  # WH7
            why = "its receiver has answered 410: it wants no more"
            return self._stopped(end_request(self._mark, self._delivered, why, ""))
        self._failures += 1
        if self._failures >= FAILURES_MAX:  # WH6
            why = f"its receiver has failed {self._failures} times: {_failure(event)}"
            return self._stopped(pause_request(self._mark, self._delivered, why))
        pause_s = self._retry_s * LATER ** (self._failures - 1)
        return self._wait(now + pause_s * (1 + self._rng.random() / 5))

    def _wait(self, until: float) -> Effect:
        if self._batch is not None and len(self._batch.lines) > KEPT_BYTES_MAX:  # WH9
            self._batch = None
        return Wait(until)

    def _woken(self, event: Woken) -> Effect:
        if self._stop is not None:
            return Leave() if event.leaves else Save(self._stop)
        if event.leaves:
            return self._save_and_leave()
        return Confirm() if self._batch is not None else self._read()

    def _save(self, now: float) -> Effect:
        self._saved_at = now
        return self._advance()

    def _advance(self) -> Effect:
        return Save(advance_request(self._mark, self._delivered), self._saved)

    def _stopped(self, change: State) -> Effect:
        self._leaves, self._stop = True, change
        return Save(change)

    def _unchanged(self, now: float) -> Effect:
        """Continue from memory: a restart from the saved mark would repeat deliveries."""
        if self._stop is not None:
            return self._wait(now + READ_AGAIN_S)
        return Leave() if self._leaves else self._read()

    def _save_and_leave(self) -> Effect:
        if self._mark == self._saved:
            return Leave()
        self._leaves = True
        return self._advance()


def _failure(event: Called) -> str:
    return f"it answers {event.status}" if event.status else event.why
