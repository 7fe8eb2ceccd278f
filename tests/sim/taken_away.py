"""Removal of a rule from outside, and the replacements of most functions."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Change = tuple[Any, str, Any]
"""(where, name, instead)."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """One removed rule: the replacement of each function that implements it, and a run's aim."""

    rule: str
    changes: Sequence[Change]
    aim: Any = None


@contextmanager
def changed(*ablations: Ablation) -> Iterator[None]:
    """Run the body without some rules."""
    with ExitStack() as stack:
        for each in ablations:
            for change in each.changes:
                stack.enter_context(patch.object(*change))
        yield


def always(*_: Any, **__: Any) -> bool:
    return True


def never(*_: Any, **__: Any) -> bool:
    return False


def nothing(*_: Any, **__: Any) -> None:
    return None


def no_why(*_: Any, **__: Any) -> str:
    return ""
