"""A URL or a link that is not one: said at once, and nothing of it may have happened."""

import pytest

from docstore.client import BadAddress, Client


@pytest.mark.parametrize("url", ["rubbish", "", "ftp://127.0.0.1:8001", "http://[::1", "http://"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_a_url_that_is_not_one(method: str, url: str) -> None:
    async with Client([url]) as client:
        with pytest.raises(BadAddress, match="is not the URL of a node"):
            await client.json(method, "/notes/a")


@pytest.mark.parametrize("link", ["notes/a", "1/a", "@elsewhere/a"])
async def test_a_link_without_its_first_slash(link: str) -> None:
    """It would become a part of the host or of the port."""
    async with Client(["http://127.0.0.1:800"]) as client:
        with pytest.raises(BadAddress, match="is not a link: links begin with /"):
            await client.put(link, {})
