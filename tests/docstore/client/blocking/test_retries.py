"""The tests of tests/docstore/client/test_retries.py, played by the blocking client."""

from tests.docstore.client.blocking.rewritten import rewritten

globals().update(rewritten("test_retries"))
