"""A bound on what a batch takes, shared among logs by how far each of them is behind."""

from collections.abc import Sequence


def fair(lags: Sequence[int], rows: int | None) -> list[int]:
    """Return how many rows to take of each log: `rows` together, or all if there are fewer.

    lags: rows that each log has. rows: None for no bound.
    """
    total = sum(lags)
    if rows is None or total <= rows:
        return list(lags)
    taken = [lag * rows // total for lag in lags]
    # What rounding leaves goes to those whom it cost the most.
    by_rest = sorted(range(len(lags)), key=lambda at: -(lags[at] * rows % total))
    for at in by_rest[: rows - sum(taken)]:
        taken[at] += 1
    return taken
