"""Parameters of a test in the three tiers: `make test`, `make thorough` and `make long`."""

from collections.abc import Iterable
from typing import Any

import pytest


def tiers(quick: Iterable[Any], thorough: Iterable[Any], slow: Iterable[Any] = ()) -> list[Any]:
    """Return the parameters, each marked by its tier."""
    marked = ((pytest.mark.thorough, thorough), (pytest.mark.slow, slow))
    return [*quick, *(pytest.param(each, marks=mark) for mark, some in marked for each in some)]
