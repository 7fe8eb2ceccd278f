"""Findings of `docstore doctor`: the fault, its place, the remedy, and a page of docs/."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Grade(Enum):
    """Severity, the worst first."""

    WRONG = "wrong"
    """The group does not do something that it should, or did something that it must not."""
    RISK = "risk"
    """The group works, but this will make it fail, or already slows it down."""


WRONG, RISK = Grade


class Finding(NamedTuple):
    """One fault or risk."""

    grade: Grade
    where: str
    """Name of a node, factory or topic; "" for the group."""
    what: str
    todo: str
    see: str
    """Page of docs/, with an anchor."""


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings sorted by grade, and otherwise in their order."""
    grades = list(Grade)
    return sorted(findings, key=lambda each: grades.index(each.grade))
