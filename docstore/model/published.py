"""Documents that nodes act on: a node receives their rows when its replica decides them."""

DECLARATIONS = "/core/factories/"
GROUPS = "/core/groups/"
PUBLISHED = (
    DECLARATIONS,
    "/core/streams/",
    "/core/leases/",
    "/core/elections/",
    "/core/locks/",
    GROUPS,
    "/core/roles/",
    "/core/subscriptions/",
)
"""Paths of such documents."""


def is_published(link: str) -> bool:
    """Say whether nodes act on a document; offsets, below a consumer group, are none."""
    if not link.startswith(PUBLISHED):
        return False
    return not link.startswith(GROUPS) or link.count("/") == GROUPS.count("/")
