"""`balance`: show how evenly owners, copies and rows are spread, and which slots are heavy."""

from typing import Any

from docstore.pipeline.jobs.work import Work

HEAVY_MAX = 10


def balance(work: Work) -> dict[str, Any]:
    """Return the share of each node, how uneven it is, and the heaviest slots."""
    plan = work.group.plan()
    names = [node["id"] for node in plan["nodes"]]
    owned, rows = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for slot, owner in enumerate(plan["owners"]):
        if owner >= 0:
            owned[names[owner]] += 1
        for number in plan["replicas"][slot]:
            rows[names[number]] += plan["ends"][slot]
    heavy = sorted(range(len(plan["ends"])), key=lambda slot: -plan["ends"][slot])[:HEAVY_MAX]
    return {
        "slotsOwned": owned,
        "rowsHeld": rows,
        "ownedMaxOverMean": _max_over_mean(list(owned.values())),
        "rowsMaxOverMean": _max_over_mean(list(rows.values())),
        "slotGini": round(gini(plan["ends"]), 4),
        "heaviestSlots": [
            {"slot": slot, "rows": plan["ends"][slot]} for slot in heavy if plan["ends"][slot]
        ],
    }


def _max_over_mean(values: list[int]) -> float:
    mean = sum(values) / max(1, len(values))
    return round(max(values) / mean, 4) if mean else 1.0


def gini(values: list[int]) -> float:
    """Return Gini's coefficient: 0 if all values are equal, near 1 if one value has all."""
    ordered = sorted(values)
    total, count = sum(ordered), len(ordered)
    if not total:
        return 0.0
    weighted = sum(rank * value for rank, value in enumerate(ordered, 1))
    return (2 * weighted) / (count * total) - (count + 1) / count
