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
"""Paths of the documents that nodes act on."""


def is_published(link: str) -> bool:
    """Say whether nodes act on a document. They do not act on offsets, below a consumer group."""
    if not link.startswith(PUBLISHED):
        return False
    return not link.startswith(GROUPS) or link.count("/") == GROUPS.count("/")
