"""An invalid URL or link is an error at once, and no request of it is sent."""

import asyncio

import pytest

from docstore.client import BadAddress, Client, RequestFailed, Unanswered
from docstore.model.recognising import MANAGEMENT


@pytest.mark.parametrize("url", ["rubbish", "", "ftp://127.0.0.1:8001", "http://[::1", "http://"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_an_invalid_url_is_an_error(method: str, url: str) -> None:
    async with Client([url]) as client:
        with pytest.raises(BadAddress, match="the URL of a node must be"):
            await client.json(method, "/notes/a")


@pytest.mark.parametrize("link", ["notes/a", "1/a", "@elsewhere/a"])
async def test_a_link_without_its_first_slash_is_an_error(link: str) -> None:
    """The link would become a part of the host or of the port."""
    async with Client(["http://127.0.0.1:800"]) as client:
        with pytest.raises(BadAddress, match="a link must begin with /"):
            await client.put(link, {})


@pytest.mark.parametrize("link", ["/notes/../orders/a", "/notes/.", "/notes/%2e%2E/a", "/.."])
async def test_a_link_with_dot_segments_is_an_error(link: str) -> None:
    """A library or a proxy resolves the segments, and the link would name another document."""
    async with Client(["http://127.0.0.1:800"]) as client:
        with pytest.raises(BadAddress, match="a link must not contain the segments"):
            await client.json("DELETE", link)


@pytest.mark.parametrize("url", ["http://me:s3cret@n1:8001", "http://me:s3/cr@et@n1", "s3cret@n1"])
def test_a_password_in_a_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(BadAddress, match=r"\*\*\*@n1.* must have no user or password") as seen:
        Client(["http://n2:8001", url])
    assert not any(word in str(seen.value) for word in ("me:", "s3", "cret"))


def test_a_client_needs_a_url() -> None:
    with pytest.raises(BadAddress, match="give at least one URL"):
        Client([])


PAGE = "HTTP/1.1 {} \r\nContent-Type: text/html\r\n{}Content-Length: 11\r\n\r\n<p>\nHi</p>\n"


@pytest.mark.parametrize(
    ("status", "header", "why"),
    [
        (200, "", "is not a docstore node: it answers .* /notes with 200, text/html; "),
        (
            302,
            "Location: https://elsewhere/\r\n",
            "docstore node: .* 302, to https://elsewhere/; ",
        ),
        (502, "", "502 <p> Hi</p>$"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_answer_of_another_server_is_an_error(
    method: str, status: int, header: str, why: str
) -> None:
    """Once, a redirected POST became a GET, which succeeded."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(PAGE.format(status, header).encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client([url]) as client:
            with pytest.raises((BadAddress, RequestFailed), match=why):
                await client.json(method, "/notes")


class Renamed:
    """A node behind a proxy that puts its own name into the answers."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.decode().split()[1]
        self.heard.append(path)
        status, page = ("200 OK", b'{"storeId":"s"}') if path == MANAGEMENT else ("404 No", b"{}")
        writer.write(f"HTTP/1.1 {status}\r\nServer: nginx\r\n".encode())
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(page), page))
        writer.close()


async def test_a_server_with_another_name_is_checked_once() -> None:
    """A node of an earlier version has no name either."""
    node = Renamed()
    async with await asyncio.start_server(node.serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client([url]) as client:
            for _ in range(2):
                with pytest.raises(RequestFailed) as refused:
                    await client.json("GET", "/notes/a")
                assert (refused.value.status, refused.value.outcome) == (404, "not_applied")
    assert node.heard == ["/notes/a", MANAGEMENT, "/notes/a"]


async def test_an_update_answered_by_an_unidentified_server_is_in_doubt() -> None:
    """A server answered the update: it must not be sent again."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).split()[0])
        if len(heard) == 1:
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client([url]) as client:
            with pytest.raises(Unanswered):
                await client.json("PUT", "/notes/a", {})
    assert heard.count(b"PUT") == 1
