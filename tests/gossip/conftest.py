"""Fixtures that all tests of real agents share."""

from collections.abc import AsyncIterator

import pytest

from tests.gossip.live import Launch, launching


@pytest.fixture
async def launch() -> AsyncIterator[Launch]:
    async with launching() as launch:
        yield launch
