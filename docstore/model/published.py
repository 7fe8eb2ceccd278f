"""Documents that nodes act on: each node receives their rows as its replica decides them."""

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
    """Say whether nodes act on a document. Offsets of consumer groups lie deeper: they do not."""
    if not link.startswith(PUBLISHED):
        return False
    return not link.startswith(GROUPS) or link.count("/") == GROUPS.count("/")
