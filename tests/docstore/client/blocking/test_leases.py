"""The tests of tests/docstore/client/test_leases.py, run with the blocking client."""

from tests.docstore.client.blocking.rewritten import rewritten

globals().update(rewritten("test_leases"))
