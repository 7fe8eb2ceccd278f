"""A token bucket for each user, with a rate and a burst, independent of other users."""

from docstore.access import rates as module
from docstore.access.rates import BURST_S, Rates


def test_a_bucket_allows_its_burst_and_refills() -> None:
    rates = Rates()
    burst = int(10 * BURST_S)
    assert [rates.allow("ann", 10, 5.0) for _ in range(burst + 3)] == [True] * burst + [False] * 3
    assert rates.allow("ann", 10, 5.1)
    assert not rates.allow("ann", 10, 5.1)
    assert [rates.allow("ann", 10, 9.0) for _ in range(burst + 1)] == [True] * burst + [False]


def test_a_bucket_does_not_limit_other_users() -> None:
    rates = Rates()
    while rates.allow("ann", 2, 1.0):
        pass
    assert rates.allow("bob", 2, 1.0)
    assert all(rates.allow("", 0, 1.0) for _ in range(1000))


def test_a_rate_below_one_a_second_allows_one_per_interval() -> None:
    rates = Rates()
    allowed = [at for at in range(30) if rates.allow("ann", 0.1, float(at))]
    assert allowed == [0, 10, 20]


def test_the_number_of_buckets_is_bounded() -> None:
    rates = Rates()
    for number in range(module.NAMES_MAX + 10):
        rates.allow(str(number), 1, 1.0)
    assert len(rates._free_at) == module.NAMES_MAX
