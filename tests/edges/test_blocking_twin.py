"""The blocking client is what its generator makes of the asynchronous one."""

from tests.blocking_twin import FILES, generated
from tests.source import ROOT


def test_the_blocking_client_is_current() -> None:
    texts = dict(generated())
    assert len(texts) == len(FILES)
    for path, text in texts.items():
        assert (ROOT / path).read_text("utf-8") == text, "run python -m tests.blocking_twin"
