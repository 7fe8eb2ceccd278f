"""A URL or a link that is not one: said at once, and nothing of it may have happened."""

import asyncio

import pytest

from docstore.client import BadAddress, Client, RequestFailed


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


@pytest.mark.parametrize("link", ["/notes/../orders/a", "/notes/.", "/notes/%2e%2E/a", "/.."])
async def test_a_link_with_dot_segments(link: str) -> None:
    """What is between here and the node resolves them: it was another document."""
    async with Client(["http://127.0.0.1:800"]) as client:
        with pytest.raises(BadAddress, match="is not a link: links have no dot segments"):
            await client.json("DELETE", link)


def test_no_url_at_all() -> None:
    with pytest.raises(BadAddress, match="no URL of a node is given"):
        Client([])


PAGE = "HTTP/1.1 {} \r\nContent-Type: text/html\r\n{}Content-Length: 11\r\n\r\n<p>\nHi</p>\n"


@pytest.mark.parametrize(
    ("status", "header", "why"),
    [
        (200, "", "is no node: it sends text/html"),
        (302, "Location: https://elsewhere/\r\n", "is no node: .* to https://elsewhere/"),
        (502, "", "502 <p> Hi</p>$"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_another_server_is_there(method: str, status: int, header: str, why: str) -> None:
    """A redirected POST had become a GET, which succeeded."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(PAGE.format(status, header).encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client([url]) as client:
            with pytest.raises((BadAddress, RequestFailed), match=why):
                await client.json(method, "/notes")
