"""Steps as text and as pages, and the filter that selects them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from docstore.model.slots import from_bitmap, slot_of
from docstore.runtime.trace.brief import Brief, BriefKind
from docstore.runtime.trace.context import trace_id
from docstore.runtime.trace.recorder import Kept, Step

SHOWN = 8
"""Items shown of one event or effect, and effects of one step; the number of the others is added.
"""
TEXT_MAX = 160


class TraceFilter(NamedTuple):
    """Selects steps with an event or effect about a slot, a document or a partition.

    slot: its number, -1 for none. slots: number of slots of the group. link: link of a document;
    where a step names no link, its slot decides. partition: `<topic>/<number>` of any incarnation,
    with the link of its document.
    """

    slot: int = -1
    slots: int = 1
    link: str = ""
    partition: str = ""

    def is_met(self, named: Mapping[str, Any]) -> bool:
        """Say whether these named values are about the filter's slot, link or partition."""
        if self.partition and str(named.get("partition", "")).partition("@")[0] == self.partition:
            return True
        link = named.get("link")
        if self.link and link:
            return bool(link == self.link)
        if self.slot < 0:
            return False
        bitmap = named.get("slots")
        if isinstance(bitmap, bytes):
            return self.slot in from_bitmap(bitmap)
        slot = slot_of(link, self.slots) if link and "slot" not in named else named.get("slot")
        return bool(slot == self.slot)


NOTHING = TraceFilter()


def facts_of(brief: Brief) -> dict[str, Any]:
    kind, facts, _ = brief
    values = (facts,) if len(kind.facts) == 1 else facts
    return dict(zip(kind.facts, values, strict=False))


def items_of(brief: Brief) -> Iterator[dict[str, Any]]:
    kind, _, items = brief
    if isinstance(items, bytes):
        yield {"slots": items}
        return
    for item in items:
        yield dict(zip(kind.items, item, strict=False))


def is_about(step: Step, about: TraceFilter) -> bool:
    return any(_is_kept_about(each, about) for each in (step.event, *step.effects))


def traces_of(step: Step) -> list[str]:
    found: dict[str, None] = {}
    for _, brief in (step.event, *step.effects):
        for named in (facts_of(brief), *items_of(brief)):
            if named.get("trace"):
                found[trace_id(named["trace"])] = None
    return list(found)


def said(kept: Kept, direction: str, about: TraceFilter = NOTHING) -> str:
    """Return an event or an effect as text; items that pass the filter come first."""
    node, brief = kept
    kind: BriefKind = brief[0]
    words = [f"{direction} {node}"] if node else []
    words += [kind.name, *_named(facts_of(brief))]
    items = sorted(items_of(brief), key=lambda item: not about.is_met(item))
    shown = [" ".join(_named(item)) for item in items[:SHOWN]]
    if len(items) > SHOWN:
        shown.append(f"{len(items) - SHOWN} more")
    if shown:
        words.append(f"[{', '.join(shown)}]")
    return " ".join(words)


def effects_of(step: Step, about: TraceFilter = NOTHING) -> list[str]:
    """Return the effects of a step as texts; those that pass the filter come first.

    The order matters at the beginning of a term, which has an effect for each slot and peer.
    """
    effects, more = step.effects, len(step.effects) - SHOWN
    if more > 0:
        effects = sorted(effects, key=lambda each: not _is_kept_about(each, about))[:SHOWN]
    texts = [said(each, "to", about) for each in effects]
    return [*texts, f"{more} more"] if more > 0 else texts


def line(step: Step, about: TraceFilter = NOTHING) -> str:
    effects = "; ".join(effects_of(step, about))
    return said(step.event, "from", about) + (f" => {effects}" if effects else "")


def page_of(step: Step, machine: str, about: TraceFilter, wall_ahead_s: float) -> dict[str, Any]:
    """Return a step as JSON. wall_ahead_s: seconds from the steps' clock to the wall clock."""
    wall = step.at + wall_ahead_s
    return {
        "number": step.number,
        "machine": machine,
        "atSeconds": round(step.at, 6),
        "time": datetime.fromtimestamp(wall, UTC).isoformat(timespec="microseconds"),
        "event": said(step.event, "from", about),
        "effects": effects_of(step, about),
        "traces": traces_of(step),
        "leftOut": step.left_out,
    }


def _is_kept_about(kept: Kept, about: TraceFilter) -> bool:
    sender, brief = kept
    # The sender is a subscription, named by its link.
    if sender.startswith("/") and about.is_met({"link": sender}):
        return True
    return about.is_met(facts_of(brief)) or any(about.is_met(item) for item in items_of(brief))


def _named(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if value is None or value in ("", b""):
            continue
        yield f"{name}={_text(trace_id(value) if name == 'trace' else value)}"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{sum(1 for _ in from_bitmap(value))}"
    if isinstance(value, frozenset | set | tuple | list):
        parts: Sequence[Any] = sorted(value) if isinstance(value, frozenset | set) else value
        return "/".join(_text(each) for each in parts)[:TEXT_MAX]
    return str(value)[:TEXT_MAX]
