"""The times and bounds of agendas, with units and reasons."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AgendaTimes:
    """The times and bounds of agendas."""

    ask_timeout_s: float = 5.0
    """Time for one operation on a document; its fate may be unknown afterwards."""

    pause_s: float = 0.5
    """Stall of the process after which it counts as paused."""

    survey_s: float = 0.2
    """Pause between two searches; slots are taken over one after another."""

    survey_again_s: float = 5.0
    """Time after a search to search once more: by then adopted rows are on the disk."""

    sweep_s: float = 5.0
    """Interval between two passes that drop the documents of terms that are over."""

    firing_max: int = 256
    """Firings in flight at a node, which share the capacity for operations with clients."""

    delivering_max: int = 128
    """Documents of a node with a delivery in flight."""

    settle_s: float = 0.5
    """Time after a delivery until its effect is removed, together with those delivered since."""

    settle_at: int = 16
    """Delivered effects of a document that are removed at once: a quarter of its room."""

    retry_s: tuple[float, float] = (0.1, 30.0)
    """First and longest pause after a failure; it doubles each time."""
