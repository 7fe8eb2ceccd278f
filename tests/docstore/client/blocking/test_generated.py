"""The blocking client is what its generator makes of the asynchronous one."""

from tests.blocking_twin import FILES, generated
from tests.docstore.client.blocking.rewritten import rewritten
from tests.source import ROOT


def test_the_blocking_client_is_current() -> None:
    texts = dict(generated())
    assert len(texts) == len(FILES)
    for path, text in texts.items():
        assert (ROOT / path).read_text("utf-8") == text, "run python -m tests.blocking_twin"


def test_tests_of_each_kind_are_played_by_both_clients() -> None:
    for name, least in (("documents", 6), ("elections", 3), ("leases", 4), ("retries", 1)):
        found = [each for each in rewritten(f"test_{name}") if each.startswith("test_")]
        assert len(found) >= least, name
