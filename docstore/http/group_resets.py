"""Where the partitions of a group continue after a reset of its offsets. Pure."""

import re
from typing import Any, NamedTuple

from docstore.errors import BadRequest, NotApplied
from docstore.http.consume import origin_of
from docstore.model.fields import Fields
from docstore.model.settings import quoted
from docstore.runtime.offsets_backend import Bounds
from docstore.services.group_document import NUMBER_MAX
from docstore.services.offsets import NOTHING, OUT_OF_RANGE, out_of_range

NONE = "none"
"""Value of `to` after which the group has no committed offset."""
ORIGINS = {"earliest": "beginning", "latest": "end"}
"""Kafka's names of places -> this store's."""
_SHIFT = re.compile(r"([+-])([0-9]{1,18})\Z")


class OutOfRange(NotApplied):
    """A group's offset is outside of its partition."""

    status = 416
    code = OUT_OF_RANGE


class Move(NamedTuple):
    """The offset of a partition before and after a reset; NOTHING for none."""

    partition: str
    before: int
    after: int
    incarnation: str

    def page(self) -> dict[str, Any]:
        """Return the move as an entry of the answer."""
        topic, _, number = self.partition.rpartition("/")
        return {
            "topic": topic, "partition": int(number), "before": self.before, "offset": self.after,
        }  # fmt: skip


class Reset(NamedTuple):
    """A request to reset offsets.

    topic, partition: "" and NOTHING for all. shift: records to move by, None for `origin`, which is
    ("none", 0), ("beginning", 0), ("end", n), ("offset", n) or ("time", us).
    """

    topic: str
    partition: int
    shift: int | None
    origin: tuple[str, int]
    is_dry: bool

    def concerns(self, partition: str) -> bool:
        """Say whether the request resets a partition, `<topic>/<number>`."""
        topic, _, number = partition.rpartition("/")
        return self.topic in ("", topic) and self.partition in (NOTHING, int(number))

    def after(self, before: int, bounds: Bounds, at_time: int) -> int:
        """Return the new offset. at_time: offset at the time of `origin`. Raises OutOfRange.

        A shift ends at the bounds, and begins at the first record if there is no offset.
        """
        start, end, _ = bounds
        kind, number = self.origin
        if self.shift is not None:
            return max(start, min(end, max(before, start) + self.shift))
        if kind == "offset" and not start <= number <= end:
            raise OutOfRange(out_of_range(number, start, end))
        places = {NONE: NOTHING, "beginning": start, "end": max(start, end - number),
                  "offset": number, "time": max(start, min(end, at_time))}  # fmt: skip
        return places[kind]


def reset_of(asked: dict[str, Any]) -> Reset:
    """Parse a request. Raises BadRequest, Refusal."""
    fields = Fields(asked)
    if (kind := fields.text("kind")) != "ResetRequest":
        raise BadRequest(f"kind must be ResetRequest; got {quoted(kind)}")
    topic, to = fields.text("topic", default=""), fields.text("to")
    partition = fields.whole("partition", 0, NUMBER_MAX) if fields.has("partition") else NOTHING
    is_dry = fields.flag("dryRun", default=False)
    fields.end()
    if partition != NOTHING and not topic:
        raise BadRequest("partition must come with `topic`")
    if found := _SHIFT.match(to):
        return Reset(topic, partition, int("".join(found.groups())), (NONE, 0), is_dry)
    origin = (NONE, 0) if to == NONE else origin_of(ORIGINS.get(to, to), "to")
    return Reset(topic, partition, None, origin, is_dry)
