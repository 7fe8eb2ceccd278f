"""Documents that nodes act on: each node is told of their rows that are decided at its replica."""

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
"""The paths that they are below."""


def is_published(link: str) -> bool:
    """Say whether nodes act on a document. What a group commits lies deeper, and is its own."""
    if not link.startswith(PUBLISHED):
        return False
    return not link.startswith(GROUPS) or link.count("/") == GROUPS.count("/")
