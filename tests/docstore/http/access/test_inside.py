"""Each path in a query, a body or a line of a request needs a grant of its own."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.model.operation import Answer
from docstore.model.service import Service
from tests.docstore.http.access.conftest import DOCUMENTS, FACTORIES, Asker
from tests.docstore.http.single import SingleNode

LINES = "application/x-ndjson"
ELSEWHERE = (
    *FACTORIES, "/core/factories/tenant1x", "/core/factories", "/core/streams/t", "/core/streams",
    "/tenant1/../tenant2/a", "/core/management", "/", "x", "",
)  # fmt: skip
NOT_THEIRS = ("/tenant2", "/tenant1x", "/tenant1/b", "/tenant1/deep", "/core")


def _line(op: str, link: str) -> bytes:
    return json.dumps({"op": op, "link": link, "body": {"a": 2}}).encode()


@pytest.mark.parametrize("op", ["PUT", "PATCH", "DELETE", "POST"])
@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("nobody", set()),
        ("reader", set()),
        ("writer", set(DOCUMENTS)),
        ("tenant-reader", set()),
        ("tenant", {"/tenant1/a", "/tenant1/b", "/tenant1/deep/a"}),
        ("one-document", {"/tenant1/a"}),
        ("scraper", set()),
    ],
)  # fmt: skip
async def test_each_line_needs_the_grant_of_its_link(
    asker: Asker, role: str, may: set[str], op: str
) -> None:
    body = b"\n".join(_line(op, link) for link in DOCUMENTS)
    status, content, _ = await asker.ask(role, "POST", "/core/bulk", body, Content_Type=LINES)
    assert status == 200
    results = [json.loads(line) for line in content.splitlines()]
    assert {each["link"] for each in results if each["status"] != 403} == may
    for each in results:
        if each["status"] == 403:
            assert each["outcome"] == "not_applied"


@pytest.mark.parametrize("link", ELSEWHERE)
async def test_no_line_changes_a_path_outside_the_grant(
    asker: Asker, node: SingleNode, link: str
) -> None:
    before = {link: len(rows) for link, rows in node.histories.items()}
    for op in ("PUT", "PATCH", "DELETE", "POST", "GET", "Put", 7):
        line = json.dumps({"op": op, "link": link, "body": {"path": "/new", "a": 1}}).encode()
        _, content, _ = await asker.ask(
            "one-document", "POST", "/core/bulk", line, Content_Type=LINES
        )
        assert json.loads(content.splitlines()[0])["status"] >= 400, op
        assert {link: len(rows) for link, rows in node.histories.items()} == before, op


async def test_an_ungranted_line_refuses_the_whole_atomic_batch(
    asker: Asker, node: SingleNode
) -> None:
    for path in ("/tenant1/orders:", "/tenant2/orders:"):
        declared = json.dumps({"path": path}).encode()
        assert (await asker.ask("operator", "POST", "/core/factories", declared))[0] == 201
    links = ["/tenant1/orders:/42", "/tenant1/orders:/42~1", "/tenant2/orders:/42~2"]
    node.answers = [Answer(503, "no-owner")]  # The answer to a batch whose lines are all granted.
    for count, role, expected in ((2, "tenant", 503), (3, "tenant", 403), (2, "one-document", 403)):
        body = b"\n".join(_line("PUT", link) for link in links[:count])
        status, content, _ = await asker.ask(
            role, "POST", "/core/bulk?atomic=true", body, Content_Type=LINES
        )
        assert status == expected
        if status == 403:
            problem = json.loads(content)
            assert problem["link"] == (links[2] if role == "tenant" else links[0])
            assert problem["outcome"] == "not_applied"
    assert not node.answers
    assert not [link for link in node.histories if "orders:/" in link]


async def test_a_link_in_a_body_does_not_redirect_the_request(asker: Asker) -> None:
    body = b'{"documentSelfLink": "/tenant2/new"}'
    assert (await asker.ask("tenant", "POST", "/tenant1", body))[0] == 400
    assert (await asker.ask("tenant", "POST", "/tenant2", body))[0] == 403
    assert (await asker.ask("tenant", "PUT", "/tenant1/a", body))[0] == 400


@pytest.mark.parametrize(
    ("role", "links"),
    [
        ("reader", ["/tenant1/a", "/tenant1/b"]),
        ("tenant", ["/tenant1/a", "/tenant1/b"]),
        ("one-document", ["/tenant1/a"]),
    ],
)
async def test_a_listing_has_only_readable_documents(
    asker: Asker, role: str, links: list[str]
) -> None:
    for query in ("", "?expand", "?$limit=1"):
        status, content, _ = await asker.ask(role, "GET", f"/tenant1{query}")
        assert status == 200
        page = json.loads(content)
        assert page["documentLinks"] == links[: 1 if "limit" in query else None]
        assert set(page.get("documents", {})) <= set(links)


async def test_a_listing_by_document_grants_does_not_scan_the_factory(
    asker: Asker, node: SingleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "listing", None)
    status, content, _ = await asker.ask("one-document", "GET", "/tenant1?expand")
    page = json.loads(content)
    assert (status, page["documentLinks"]) == (200, ["/tenant1/a"])
    assert page["documents"]["/tenant1/a"]["a"] == 1
    _, content, _ = await asker.ask("one-document", "GET", "/tenant1?after=/tenant1/a")
    assert json.loads(content)["documentLinks"] == []
    await asker.ask("operator", "DELETE", "/tenant1/a")
    _, content, _ = await asker.ask("one-document", "GET", "/tenant1")
    assert json.loads(content)["documentLinks"] == []


@pytest.mark.parametrize("more", ["", "&expand"])
async def test_a_listing_by_document_grants_has_pages(asker: Asker, more: str) -> None:
    target, seen = f"/tenant1?$limit=1{more}", []
    while target:
        page = json.loads((await asker.ask("two-documents", "GET", target))[1])
        seen.append(page["documentLinks"])
        assert list(page.get("documents", {})) == (page["documentLinks"] if more else [])
        target = page.get("nextPageLink", "")
    assert seen == [["/tenant1/a"], ["/tenant1/b"]]  # The third one does not exist.


async def test_a_count_needs_a_grant_of_the_whole_factory(asker: Asker) -> None:
    assert (await asker.ask("tenant", "GET", "/tenant1?$count=true"))[0] == 200
    assert (await asker.ask("one-document", "GET", "/tenant1?$count=true"))[0] == 403


@pytest.mark.parametrize("target", NOT_THEIRS)
async def test_an_unreadable_path_is_404(asker: Asker, target: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        assert (await asker.ask("one-document", method, target))[0] == 404


async def test_a_document_above_a_grant_stays_hidden(asker: Asker) -> None:
    """A grant below a document, where a factory may be declared, does not show the document."""
    await asker.ask("operator", "POST", "/core/factories", b'{"path": "/tenant2/a"}')
    await asker.ask("operator", "PUT", "/tenant1/a/x", b"{}")
    await asker.ask("operator", "POST", "/core/factories", b'{"path": "/tenant1/a"}')
    assert (await asker.ask("one-document", "GET", "/tenant2/a"))[0] == 404
    assert (await asker.ask("one-document", "GET", "/tenant1"))[0] == 200


async def test_only_declarations_of_readable_factories_are_listed(asker: Asker) -> None:
    _, content, _ = await asker.ask("tenant-reader", "GET", "/core/factories")
    listed = json.loads(content)["documentLinks"]
    assert listed == ["/core/factories/tenant1", "/core/factories/tenant1:deep"]


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [
        ("tenant-admin", "/tenant1/more", 201),
        ("tenant-admin", "/tenant2/more", 403),
        ("tenant-admin", "/tenant1x/more", 403),
        ("tenant", "/tenant1/more", 403),
        ("writer", "/more", 403),
        ("operator", "/more", 201),
    ],
)
async def test_a_declaration_needs_admin_at_the_path_of_its_factory(
    asker: Asker, role: str, path: str, status: int
) -> None:
    body = json.dumps({"path": path}).encode()
    assert (await asker.ask(role, "POST", "/core/factories", body))[0] == status
    link = f"/core/factories/{path[1:].replace('/', ':')}"
    expected = 200 if status == 201 else status
    assert (await asker.ask(role, "PUT", link, body))[0] == expected


@pytest.mark.parametrize("role", ["nobody", "tenant", "one-document", "scraper", "producer"])
@pytest.mark.parametrize("prefix", ["", "/", "/tenant2", "/tenant1x", "/core/factories", "/core",
    "/tenant1/../tenant2", "//tenant1", "/tenant"])  # fmt: skip
async def test_feeds_scans_and_queries_of_unreadable_paths_are_refused(
    asker: Asker, role: str, prefix: str
) -> None:
    assert (await asker.ask(role, "GET", f"/core/changes?prefix={prefix}"))[0] in (400, 404)
    body = json.dumps({"prefix": prefix}).encode()
    assert (await asker.ask(role, "POST", "/core/changes", body))[0] in (400, 404)
    scan = json.dumps({"prefix": prefix + "/", "cut": [[0, 9]]}).encode()
    assert (await asker.ask(role, "POST", "/core/spark/scan", scan))[0] in (400, 404)
    log = json.dumps({"prefix": prefix + "/", "ranges": [[0, 0, 9]]}).encode()
    assert (await asker.ask(role, "POST", "/core/spark/changes", log))[0] in (400, 404)
    query = json.dumps({"path": prefix}).encode()
    assert (await asker.ask(role, "POST", "/core/query-tasks", query))[0] in (400, 404)
    hook = b'{"callback": "https://hooks.example/"}'
    if prefix:
        assert (await asker.ask(role, "GET", f"/core/spark/plan?path={prefix}"))[0] in (400, 404)
        assert (await asker.ask(role, "GET", f"{prefix}?watch"))[0] in (400, 404)
        target = f"{prefix}/subscriptions"
        made = 405 if prefix == "/core" else 404  # This path has no POST.
        assert (await asker.ask(role, "POST", target, hook))[0] in (400, made)


@pytest.mark.parametrize(
    ("role", "path", "status", "code"),
    [
        ("tenant-reader", "/tenant1", 400, "callback-refused"),
        ("one-document", "/tenant1/a", 400, "callback-refused"),
        ("one-document", "/tenant1", 404, "not-found"),
        ("one-document", "/tenant1/b", 404, "not-found"),
        ("tenant", "/tenant1x", 404, "not-found"),
        ("tenant", "/core/subscriptions", 404, "not-found"),
        ("reader", "/core/subscriptions", 400, "malformed"),
        ("reader", "/core/subscriptions/1", 400, "malformed"),
    ],
)
async def test_a_subscription_needs_read_of_its_whole_path(
    asker: Asker, role: str, path: str, status: int, code: str
) -> None:
    """The request passes its grants, and this node's settings refuse each callback."""
    hook = b'{"callback": "https://hooks.example/"}'
    answered, content, _ = await asker.ask(role, "POST", f"{path}/subscriptions", hook)
    assert (answered, json.loads(content)["errorCode"]) == (status, code)


@pytest.mark.parametrize("role", ["nobody", "one-document", "scraper", "producer"])
@pytest.mark.parametrize("query", ["$filter=n%20eq%201", "$orderby=n", "asOf=latest", "cursor=abc"])
async def test_a_query_needs_read_of_the_whole_factory(asker: Asker, role: str, query: str) -> None:
    assert (await asker.ask(role, "GET", f"/tenant1?{query}"))[0] == 404


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [
        ("reader", "/core/management", 200),
        ("tenant", "/core/management", 404),
        ("scraper", "/core/management", 404),
        ("nobody", "/core/node-groups/default", 200),
        ("nobody", "/core/node-selectors/default", 200),
        ("", "/core/node-groups/default", 401),
        ("tenant-reader", "/tenant1/stats", 200),
        ("tenant-reader", "/tenant1x/stats", 404),
        ("one-document", "/tenant1/stats", 404),
        ("one-document", "/tenant1/a/stats", 200),
    ],
)
async def test_forwarding_needs_the_grant_of_the_forwarded_path(
    asker: Asker, role: str, path: str, status: int
) -> None:
    forwarding = f"/core/node-selectors/default/forwarding?path={path}"
    for target in ("ALL", "PEER_ID&peer=n1", "KEY_HASH&key=x"):
        assert (await asker.ask(role, "GET", f"{forwarding}&target={target}"))[0] == status
    changed = await asker.ask(role, "PATCH", f"{forwarding}&target=ALL", b"{}")
    assert changed[0] == (401 if status == 401 else 403)


@pytest.mark.parametrize(
    ("role", "status"), [("tenant-reader", 200), ("one-document", 404), ("nobody", 404)]
)
async def test_a_grant_of_one_document_does_not_show_the_declaration(
    asker: Asker, role: str, status: int
) -> None:
    for target in (
        "/tenant1/a/config",
        "/tenant1/a/template",
        "/core/factories/tenant1",
        "/tenant1/config",
    ):
        assert (await asker.ask(role, "GET", target))[0] == status


@pytest.mark.parametrize(
    ("role", "status"), [("tenant", 200), ("one-document", 200), ("producer", 404), ("nobody", 404)]
)
async def test_the_index_needs_the_grant_of_the_document(
    asker: Asker, role: str, status: int
) -> None:
    target = "/core/document-index?documentSelfLink=/tenant1/a"
    assert (await asker.ask(role, "GET", target))[0] == status


async def test_attaching_to_a_lease_needs_write_of_the_lease(asker: Asker) -> None:
    body = b'{"documentLeaseLink": "/core/leases/theirs"}'
    for headers in ({}, {"X-Request-Id": "by a task"}):
        status, content, _ = await asker.ask("tenant", "PUT", "/tenant1/new", body, **headers)
        assert (status, json.loads(content)["errorCode"]) == (403, "forbidden")
    status, _, _ = await asker.ask(
        "tenant", "PUT", "/tenant1/new", b"{}", Docstore_Lease="/core/leases/theirs"
    )
    assert status == 403
    assert (await asker.ask("writer", "PUT", "/tenant1/new", body))[0] == 404


async def test_raising_a_producer_epoch_needs_write_of_producers(asker: Asker) -> None:
    body = b'{"id": "p"}'
    assert (await asker.ask("producer", "POST", "/core/producers", body))[0] == 200
    for role in ("tenant", "reader", "nobody"):
        assert (await asker.ask(role, "POST", "/core/producers", body))[0] == 403


async def test_lines_after_the_token_is_removed_are_401(
    base_url: str, asker: Asker, authenticator: Authenticator
) -> None:
    goes_on = asyncio.Event()

    async def lines() -> AsyncIterator[bytes]:
        yield _line("PUT", "/tenant1/a") + b"\n"
        await goes_on.wait()
        yield _line("PUT", "/tenant1/b") + b"\n"

    headers = {"Authorization": "Bearer tenant", "Content-Type": LINES}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base_url}/core/bulk", data=lines(), headers=headers) as answer,
    ):
        first = json.loads(await answer.content.readline())
        authenticator.use(rules_of(""))
        goes_on.set()
        second = json.loads(await answer.content.readline())
    assert (first["status"], second["status"]) == (200, 401)


async def test_openapi_lists_only_readable_factories(
    asker: Asker,
) -> None:
    listed = {}
    for role in ("tenant-reader", "operator", "nobody"):
        status, content, _ = await asker.ask(role, "GET", "/core/openapi.json")
        paths = json.loads(content)["paths"] if status == 200 else {}
        listed[role] = {path for path in FACTORIES if path in paths}
        assert "/core/management" in paths
    assert listed == {
        "tenant-reader": {"/tenant1", "/tenant1/deep"},
        "operator": set(FACTORIES),
        "nobody": set(),
    }
    assert (await asker.ask("", "GET", "/core/openapi.json"))[0] == 401


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/core/ui/x", "/core/docs/x"])
async def test_an_open_path_looks_up_no_service(
    asker: Asker, node: SingleNode, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    asked: list[str] = []
    find = node.find_service

    async def noted(path: str, timeout_s: float) -> Service | None:
        asked.append(path)
        return await find(path, timeout_s)

    monkeypatch.setattr(node, "find_service", noted)
    assert (await asker.ask("", "GET", f"{path}?watch"))[0] == 404
    assert asked == []
