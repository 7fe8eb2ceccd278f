"""What a doctor says: what is the matter, where, what to do, and which page of docs/ tells more."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Grade(Enum):
    """How bad it is, the worst first."""

    WRONG = "wrong"
    """Something that should be done is not, or what must not happen did."""
    RISK = "risk"
    """All is done for now; what is said will make it fail, or already costs something."""


WRONG, RISK = Grade


class Finding(NamedTuple):
    """One thing that is not as it should be."""

    grade: Grade
    where: str
    """A node, a factory, a topic; "" for the group."""
    what: str
    todo: str
    see: str
    """A page of docs/, with a place in it."""


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return what is wrong first; else in the order in which it was found."""
    grades = list(Grade)
    return sorted(findings, key=lambda each: grades.index(each.grade))
