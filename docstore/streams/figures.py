"""Live figures of the partitions that this node leads, as pages and commands show them."""

from collections.abc import Sequence

from docstore.streams.effects import Figures
from docstore.streams.leader import Leader


def figures_of(leader: Leader, links: Sequence[str]) -> Figures:
    """Return leo, hw, base, epoch and followers of the partitions that this node leads.

    hw: None while a new leader does not know it: a lower value than an earlier leader's must not be
    shown.
    """
    wanted = set(links)
    found: dict[str, dict[str, object]] = {}
    for leading in leader.leading.values():
        log = leading.log
        if log.link not in wanted or not leading.is_online:
            continue
        found[log.link] = {
            "leo": log.end,
            "hw": log.high if leading.knows_high else None,
            "base": log.start,
            "epoch": leading.epoch,
            "followers": [
                {
                    "id": each.node,
                    "copy": each.copy,
                    "leo": each.acked if each.has_joined else -1,
                    "hw": min(each.told[0], each.acked) if each.has_joined else -1,
                    "lag": log.end - each.acked if each.has_joined else None,
                }
                for each in leading.followers.values()
            ],
        }
    return Figures(found)
