"""Grants of a user: levels at paths. A level holds at its path and below it.

    read    read documents, their history and their feed
    write   read, and create, change and delete documents
    admin   write, and declare factories and topics, and operate them

Paths are matched segment by segment: `/a/b` is above `/a/b/c`, but not above `/a/bc`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

ROOT = "/"


class AccessLevel(IntEnum):
    """Level of a grant. Each includes the lower ones: WRITE must, as its answers show documents."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Grants:
    """The permissions of a user: canonical path -> access level there and below."""

    levels: Mapping[str, AccessLevel]

    def allow(self, level: AccessLevel, path: str) -> bool:
        levels = self.levels
        while levels.get(path, 0) < level:
            if path == ROOT:
                return False
            path = path.rpartition("/")[0] or ROOT
        return True

    def is_any_below(self, path: str, level: AccessLevel = AccessLevel.READ) -> bool:
        """Say whether a grant of a level is below a path, so that some documents there have it."""
        below = path.rstrip("/") + "/"
        return any(
            granted.startswith(below) and held >= level for granted, held in self.levels.items()
        )


def joined(many: Iterable[Mapping[str, AccessLevel]]) -> dict[str, AccessLevel]:
    """Return the union of grants: the highest level at each path."""
    found: dict[str, AccessLevel] = {}
    for levels in many:
        for path, level in levels.items():
            found[path] = max(level, found.get(path, level))
    return found
