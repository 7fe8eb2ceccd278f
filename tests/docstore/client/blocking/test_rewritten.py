"""The blocking client runs some tests of each kind of the asynchronous one."""

import pytest

from tests.docstore.client.blocking.rewritten import rewritten


@pytest.mark.parametrize(
    ("name", "least"), [("documents", 6), ("elections", 3), ("leases", 4), ("retries", 1)]
)
def test_enough_tests_can_be_rewritten(name: str, least: int) -> None:
    assert sum(each.startswith("test_") for each in rewritten(f"test_{name}")) >= least
