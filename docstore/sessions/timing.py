"""The times and bounds of sessions, with units and reasons."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsConfig:
    """The times and bounds of sessions."""

    ask_timeout_s: float = 3.0
    """Time for one operation on a document; its fate may be unknown afterwards."""

    pause_s: float = 0.5
    """Stall of the process after which its sockets may hold unread renewals."""

    again_s: float = 0.05
    """Pause between two attempts to find the owner of a document."""

    resend_s: tuple[float, float] = (1.0, 5.0)
    """First and longest pause before a call without an answer is sent again; it doubles each time.

    Most calls without an answer are not lost, but wait.
    """

    survey_s: float = 0.2
    """Pause between two listings of owned documents; slots are taken over one after another."""

    survey_again_s: float = 5.0
    """Time after a listing to list once more: by then adopted rows are on the disk."""

    sweep_s: float = 1.0
    """Interval between two passes that drop tables of terms that are over."""

    endings_max: int = 256
    """Endings in flight at a node, which share the capacity for operations with clients."""

    endings_per_s: int = 1_000
    """Endings per second, so that clients are served even if all leases expire at once."""

    topics_s: float = 30.0
    """Interval between two reads of a consumer group's topics, which may get more partitions."""

    passes_s: tuple[float, ...] = (0.0, 2.0, 10.0, 65.0)
    """Times after the end of a lease at which its attached documents are swept.

    A write that was on its way may arrive until its deadline, which is 60 s away at most.
    """

    waiting_max: int = 10_000
    """Calls that may wait at a node; a further call is answered with 503."""
