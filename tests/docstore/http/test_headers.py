"""Reads over HTTP: versions, other representations, other methods and unknown paths."""

import hashlib
import re
from typing import Any

import aiohttp
import msgpack
import pytest

from docstore.http.methods import READS
from docstore.http.routes.table import ROUTES
from tests.docstore.http.conftest import BOTH_WAYS, Raw
from tests.docstore.http.problem import problem_of

pytestmark = BOTH_WAYS

Client = aiohttp.ClientSession


async def put(client: Client, link: str, state: Any) -> tuple[int, Any]:
    async with client.put(link, json=state) as response:
        return response.status, await response.json()


async def test_past_versions_are_read_by_number_and_time(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    versions = [(await put(client, link, {"n": n}))[1] for n in range(4)]
    for version in versions:
        number = version["documentVersion"]
        async with client.get(link, params={"documentVersion": number}) as response:
            assert await response.json() == version
            assert response.headers["ETag"].endswith(f'.{number}"')
        params = {"at": version["documentUpdateTimeMicros"]}
        async with client.get(link, params=params) as response:
            assert await response.json() == version
        params = {"documentSelfLink": link, "documentVersion": number}
        async with client.get("/core/document-index", params=params) as response:
            assert await response.json() == version
    for query in ("documentVersion=99", "at=1970-01-01T00:00:00Z"):
        async with client.get(f"{link}?{query}") as response:
            await problem_of(response, 404)
    bad = ("documentVersion=-1", "documentVersion=x", "documentVersion=", "at=yesterday",
           "at=2020-01-01", "at=", "documentVersion=99999999999999999999999")  # fmt: skip
    for query in bad:
        async with client.get(f"{link}?{query}") as response:
            await problem_of(response, 400)


async def test_history_comes_newest_first_in_pages(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    for n in range(5):
        await put(client, link, {"n": n})
    await client.delete(link)
    seen, page = [], f"{link}/versions?limit=2"
    while page:
        async with client.get(page) as response:
            body = await response.json()
            assert body["documentSelfLink"] == link
            seen += [(each["documentVersion"], each["n"]) for each in body["versions"]]
            page = body.get("nextPageLink", "")
    assert seen == [(5, 4), (4, 4), (3, 3), (2, 2), (1, 1), (0, 0)]
    for query in ("limit=0", "limit=1001", "limit=x", "from=-1", "from=x"):
        async with client.get(f"{link}/versions?{query}") as response:
            await problem_of(response, 400)
    async with client.get(f"{factory}/none/versions") as response:
        await problem_of(response, 404)
    async with client.put(f"{link}/versions", json={}) as response:
        await problem_of(response, 405)


async def test_msgpack_is_accepted_and_returned(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    headers = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
    async with client.put(link, data=msgpack.packb({"n": [1, "ä"]}), headers=headers) as response:
        assert response.content_type == "application/msgpack"
        packed = msgpack.unpackb(await response.read())
        tag = response.headers["ETag"]
    async with client.get(link) as response:
        assert await response.json() == packed
        assert response.headers["ETag"] != tag, "another representation"
    assert packed["n"] == [1, "ä"]
    accept = "application/msgpack;q=0.5, application/json"
    async with client.get(link, headers={"Accept": accept}) as response:
        assert response.content_type == "application/json"
    async with client.get(link, headers={"Accept": "text/html, */*;q=0.1"}) as response:
        assert response.content_type == "application/json"
    for accept in ("text/html", "application/json;q=0", "image/*"):
        async with client.get(link, headers={"Accept": accept}) as response:
            await problem_of(response, 406)


async def test_a_change_whose_answer_is_not_accepted_is_not_made(
    client: Client, factory: str
) -> None:
    headers = {"Accept": "text/html"}
    link, name = f"{factory}/a", factory.strip("/")
    _, before = await put(client, link, {"n": 1})
    for method, path, body in (
        ("PUT", link, {"n": 2}), ("PATCH", link, {"n": 2}), ("DELETE", link, None),
        ("POST", factory, {"documentSelfLink": "b"}), ("PUT", f"{factory}/c", {"n": 1}),
        ("POST", "/core/factories", {"path": f"{factory}x"}),
    ):  # fmt: skip
        async with client.request(method, path, json=body, headers=headers) as response:
            await problem_of(response, 406)
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", name, route.path)
        for method, op in route.ops.items():
            if method not in READS and route.pages and op.is_in_json and "staging" not in path:
                async with client.request(method, path, json={}, headers=headers) as response:
                    assert response.status == 406, (method, path, response.status)
    async with client.get(factory) as response:
        assert (await response.json())["documentLinks"] == [link]
    async with client.get(link) as response:
        assert await response.json() == before
    async with client.get(f"{factory}x") as response:
        assert response.status == 404


async def test_links_may_have_other_characters(client: Client, factory: str) -> None:
    for spelled, name in (("x%20y", "x y"), ("%C3%A4", "ä"), ("100%25", "100%"), ("q%22q", 'q"q')):
        link = f"{factory}/{name}"
        async with client.post(factory, json={"documentSelfLink": name}) as response:
            assert response.status == 201
            location = response.headers["Location"]
        async with client.get(aiohttp.client.URL(location, encoded=True)) as response:
            assert (await response.json())["documentSelfLink"] == link
        url = aiohttp.client.URL(f"{factory}/{spelled}", encoded=True)
        async with client.get(url) as response:
            assert (await response.json())["documentSelfLink"] == link


async def test_head_is_get_without_a_body(client: Client, factory: str) -> None:
    await put(client, f"{factory}/a", {"n": 1})
    for path in (
        f"{factory}/a",
        factory,
        "/core/management",
        "/health/live",
        f"{factory}/a/versions",
    ):
        async with client.get(path) as got, client.head(path) as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == got.headers["Content-Type"]
            assert await response.read() == b""
            if "ETag" in got.headers:
                assert response.headers["ETag"] == got.headers["ETag"]
    async with client.head(f"{factory}/none") as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("{factory}/a", "POST"), ("{factory}", "PUT"), ("{factory}", "DELETE"),
        ("{factory}", "PATCH"), ("/core/examples/x", "POST"), ("/core/management", "POST"),
        ("/core/bulk", "GET"), ("/metrics", "POST"), ("/core/node-groups/default", "DELETE"),
        ("/core/node-selectors/default", "PUT"), ("/core/management/synch", "PATCH"),
        ("/core/streams/t/partitions/0", "PUT"), ("/core/streams/t/partitions/0", "DELETE"),
        ("/core/streams/t/partitions", "POST"), ("/core/streams/t", "PUT"),
        ("{factory}/a", "PURGE"), ("/nowhere", "TRACE"), ("/core/examples", "PROPFIND"),
    ],
)  # fmt: skip
async def test_other_methods_are_405_and_name_the_allowed_ones(
    client: Client, factory: str, path: str, verb: str
) -> None:
    path = path.format(factory=factory)
    async with client.request(verb, path, json={}) as response:
        await problem_of(response, 405)
        allow = response.headers["Allow"].split(", ")
    assert verb not in allow
    assert allow == sorted(allow)
    async with client.options(path) as response:
        if path != "/nowhere":
            assert response.status == 204
            assert verb not in response.headers["Allow"].split(", ")
            assert "OPTIONS" in response.headers["Allow"].split(", ")


async def test_unknown_paths_are_404(client: Client, factory: str) -> None:
    for path in (
        "/nowhere",
        "/nowhere/x",
        "/core",
        "/core/nothing",
        f"{factory}/a/b",
        "/health",
    ):
        async with client.get(path) as response:
            assert response.status == 404, path
            await problem_of(response, response.status)


async def test_weaker_reads_show_their_staleness(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    await put(client, link, {"n": 1})
    for level in ("committed", "stale"):
        headers = {"Docstore-Consistency": level, "Docstore-Min-Version": "0"}
        async with client.get(link, headers=headers) as response:
            assert (await response.json())["n"] == 1
            assert int(response.headers["Docstore-Staleness-Ms"]) >= 0
    headers = {
        "Docstore-Consistency": "stale",
        "Docstore-Min-Version": "9",
        "Docstore-Timeout-Ms": "50",
    }
    async with client.get(link, headers=headers) as response:
        await problem_of(response, 503)
    async with client.get(link, headers={"Docstore-Consistency": "linearizable"}) as response:
        assert "Docstore-Staleness-Ms" not in response.headers


async def test_trace_context_is_returned(client: Client, factory: str) -> None:
    good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for path in (f"{factory}/none", "/core/management"):
        async with client.get(path, headers={"traceparent": good}) as response:
            assert response.headers["traceparent"] == good
    async with client.get(factory, headers={"traceparent": "nonsense"}) as response:
        assert "traceparent" not in response.headers


async def test_pipelined_and_split_requests_are_answered_in_order(
    client: Client, factory: str, raw: Any
) -> None:
    head = f"PUT {factory}/p HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    one = f'{head}Content-Length: 7\r\n\r\n{{"n":1}}'.encode()
    two = f'{head}Transfer-Encoding: chunked\r\n\r\n3\r\n{{"n\r\n4\r\n":2}}\r\n0\r\n\r\n'.encode()
    three = f"GET {factory}/p HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    answer = (await raw(one + two + three)).decode()
    assert re.findall(r"HTTP/1.1 (\d+)", answer) == ["201", "200", "200"]
    assert '"n":2,"documentSelfLink"' in answer


async def test_a_large_document_is_stored_and_returned(client: Client, factory: str) -> None:
    text = hashlib.sha256(b"x").hexdigest() * 16_000
    status, _ = await put(client, f"{factory}/big", {"text": text})
    assert status == 201
    async with client.get(f"{factory}/big") as response:
        assert (await response.json())["text"] == text


ONCE = {
    "Fence": "l:1", "Idempotency-Key": "k", "Content-Type": "application/json",
    "Docstore-Timeout-Ms": "1000", "Docstore-Quorum": "all", "Docstore-Consistency": "stale",
    "Docstore-Min-Version": "0", "Docstore-Lease": "/core/leases/l", "Docstore-Token": "1.1",
    "Docstore-Producer": "p; epoch=1; sequence=0", "Last-Event-ID": "x", "Host": "localhost",
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE)
async def test_a_repeated_single_header_is_400_in_any_case(
    client: Client, factory: str, raw: Raw, name: str
) -> None:
    said = {"Host": "localhost", "Content-Type": "application/json", "Connection": "close"}
    lines = [*(said | {name: ONCE[name]}).items(), (name.lower(), ONCE[name])]
    head = "".join(f"{each}: {value}\r\n" for each, value in lines)
    request = f"PUT {factory}/a HTTP/1.1\r\n{head}Content-Length: 2\r\n\r\n{{}}"
    assert (await raw(request.encode())).startswith(b"HTTP/1.1 400 ")
    async with client.get(f"{factory}/a") as response:
        assert response.status == 404


async def test_repeated_lines_of_a_list_header_are_joined(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    await put(client, link, {})
    for name, tag, status in (("If-Match", "1.0", 200), ("If-None-Match", "1.1", 412)):
        lines = [(name, '"7.7"'), (name, f'"{tag}"')]
        async with client.put(link, json={"n": 1}, headers=lines) as response:
            assert response.status == status


async def test_joined_idempotency_keys_are_400(client: Client, factory: str) -> None:
    async with client.put(f"{factory}/a", json={}, headers={"Idempotency-Key": "a, b"}) as response:
        assert "comma" in (await problem_of(response, 400))["detail"]
