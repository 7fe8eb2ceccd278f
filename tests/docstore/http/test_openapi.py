"""The OpenAPI description names exactly the paths, methods and parameters that the server takes.

OPTIONS requests find out which methods the server takes at each kind of path.
"""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from docstore.http.console.files import NAMES, TYPES
from docstore.http.core_pages import OPENAPI as PATH
from docstore.http.openapi import document
from docstore.http.openapi.document import SCHEMAS
from docstore.http.openapi.parameters import IN_ANSWERS, IN_HEADERS, IN_PATHS, IN_QUERIES
from docstore.http.openapi.samples import sample_of
from docstore.http.server import HttpServer
from docstore.http.staged_files import Staging
from docstore.http.staging import STAGING
from docstore.http.used_headers import RELIED_ON
from docstore.model.paths import SUFFIXES
from docstore.model.service import ServiceOptions
from docstore.services.declared import DeclaredService
from tests.docstore.http.access.test_permissions import routes
from tests.docstore.http.conftest import FAST, Declare
from tests.docstore.http.single import SingleNode

SAMPLES = {
    "partition": "0",
    "offset": "7",
    "selector": "default",
    "topic": "orders",
    "file": "main.js",
}
SEGMENTS = frozenset({"a", "0", "partitions", "records", "members", "offsets"}) | SUFFIXES
METHODS = frozenset("get head post put patch delete options".split())


@pytest.fixture
async def base_url(node: SingleNode, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of a server with staging."""
    server = HttpServer(node, FAST, Staging(tmp_path))
    yield f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.stop(0.1)


def sample(template: str) -> str:
    """Return an example path of a template."""
    return re.sub(r"\{(\w+)\}", lambda found: SAMPLES.get(found[1], "a"), template)


def is_of(path: str, template: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) is not None


async def described(client: aiohttp.ClientSession) -> dict[str, Any]:
    async with client.get(PATH) as answer:
        assert answer.status == 200
        page: dict[str, Any] = await answer.json()
        return page


async def allowed(client: aiohttp.ClientSession, path: str) -> set[str]:
    """Return the methods that the server takes at a path; none if the path does not exist."""
    async with client.options(path) as answer:
        if answer.status in (404, 400):
            return set()
        assert answer.status == 204, (path, await answer.text())
        methods = set(answer.headers["Allow"].lower().split(", "))
    assert "options" in methods
    return methods - {"options"}


def candidates(paths: set[str]) -> set[str]:
    """Return paths of each kind, and paths one segment below them."""
    found = (paths | routes()) - {"/"}
    found -= {f"{STAGING}/a/a"}  # Names of parts may have slashes.
    last = {path for path in found if path.rpartition("/")[2] in SUFFIXES}
    return found | {f"{path}/{segment}" for path in found - last for segment in SEGMENTS}


async def test_the_described_paths_and_methods_are_exactly_those_served(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    weak = await declare(options=["PERSISTENCE", "REPLICATION"])
    factory = await declare()
    templates = (await described(client))["paths"]
    assert {weak, factory, f"{weak}/{{id}}/conflicts"} <= set(templates)
    for template, item in templates.items():
        documented = METHODS & set(item)
        assert await allowed(client, sample(template)) == documented, template
    for path in sorted(candidates({sample(each) for each in templates})):
        fitting = [each for each in templates if is_of(path, each)]
        if methods := await allowed(client, path):
            documented = [METHODS & set(templates[each]) for each in fitting]
            assert methods in documented, (path, methods, fitting)


async def test_an_update_with_a_header_without_effect_is_refused(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    await declare()
    page = await described(client)
    for template, item in page["paths"].items():
        for method in {"post", "put", "patch", "delete"} & item.keys():
            heeded = headers_of(page, item[method])
            for name in set(RELIED_ON) - heeded:
                path = sample(template)
                body = {} if method != "delete" else None
                async with client.request(method, path, json=body, headers={name: "1"}) as answer:
                    detail = (await answer.json())["detail"]
                assert (answer.status, name in detail) == (400, True), (method, path, name, detail)


def headers_of(page: dict[str, Any], operation: dict[str, Any]) -> set[str]:
    """Return the parameters of an operation that are headers."""
    names = (each["$ref"].rpartition("/")[2] for each in operation.get("parameters", ()))
    found = [page["components"]["parameters"][name] for name in names]
    return {each["name"] for each in found if each["in"] == "header"}


def parameters_of(page: dict[str, Any], operation: dict[str, Any]) -> set[str]:
    """Return the query parameters of an operation."""
    names = (each["$ref"].rpartition("/")[2] for each in operation.get("parameters", ()))
    found = [page["components"]["parameters"][name] for name in names]
    return {each["name"] for each in found if each["in"] == "query"}


async def detail_of(client: aiohttp.ClientSession, method: str, url: str) -> tuple[int, str]:
    async with client.request(method, url, timeout=aiohttp.ClientTimeout(5)) as answer:
        if answer.content_type != "application/problem+json":
            return answer.status, ""
        return answer.status, (await answer.json())["detail"]


FOR_ANYBODY = re.compile(r"/health/|/metrics|/core/ui|/core/docs|/\Z")
"""Pages for supervisors and browsers, which may add meaningless parameters to a URL."""

PLACES = frozenset({"cursor", "after"})
"""Parameters of links to the next page, of a query or of a listing; they exclude each other."""


async def test_an_undescribed_parameter_is_refused_and_named(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    await declare(options=["PERSISTENCE", "REPLICATION"])
    page = await described(client)
    for template, item in page["paths"].items():
        for method in (METHODS - {"head"}) & set(item):
            known = parameters_of(page, item[method]) - PLACES
            query = "&".join([*(f"{name}=x" for name in sorted(known)), "unheardOf=1"])
            status, detail = await detail_of(client, method, f"{sample(template)}?{query}")
            if FOR_ANYBODY.match(template):
                assert status != 400, (method, template, detail)
            else:
                found = (status, detail.partition(", but")[0])
                detail = "there is no parameter 'unheardOf' here"
                assert found == (400, detail), (method, template)


async def test_a_repeated_or_invalid_parameter_is_refused(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    factory = await declare()
    for url, detail in {
        f"{factory}?$limit=1&$limit=2": "parameter $limit must be given once; got it twice",
        f"{factory}?expand=maybe": "expand must be true or false; got 'maybe'",
        f"{factory}?$count=maybe": "$count must be true or false; got 'maybe'",
        f"{factory}?deleted=maybe": "deleted must be true or false; got 'maybe'",
        f"{factory}/a?documentVersion=1&at=7": "only one of documentVersion and at can be given",
        f"{factory}/a?documentversion=0": "there is no parameter 'documentversion' here,"
        " but at, documentVersion",
    }.items():
        assert await detail_of(client, "GET", url) == (400, detail)


def media_types(page: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (operation, media type, its object) of each body."""
    answer = page["components"]["responses"]["Problem"]
    yield "Problem", *next(iter(answer["content"].items()))
    for item in page["paths"].values():
        for method in METHODS & set(item):
            op = item[method]
            for each in (op.get("requestBody", {}), *op["responses"].values()):
                for media, form in each.get("content", {}).items():
                    yield op["operationId"], media, form


async def test_each_media_type_has_a_schema_and_an_example(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    await declare(schema=SCHEMA)
    await declare()
    page = await described(client)
    shown = page["components"]["examples"]
    for named, media, form in media_types(page):
        assert form["schema"], (named, media)
        [(_, example)] = form["examples"].items()
        assert "value" in shown[example["$ref"].rpartition("/")[2]], (named, media)
        is_sequence = media in ("application/x-ndjson", "text/event-stream")
        assert is_sequence <= ("x-itemSchema" in form), (named, media)


async def test_each_type_of_the_files_of_the_console_is_described(
    client: aiohttp.ClientSession,
) -> None:
    answer = (await described(client))["paths"]["/core/ui/{file}"]["get"]["responses"]["200"]
    used = {TYPES[name.rpartition(".")[2]].partition(";")[0] for name in NAMES}
    assert set(answer["content"]) == used


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_example_is_valid_by_its_schema(name: str) -> None:
    components = {"components": {"schemas": SCHEMAS}}
    validator = Draft202012Validator({**components, "$ref": f"#/components/schemas/{name}"})
    for example in SCHEMAS[name]["examples"]:
        validator.validate(example)


REFUSED = [
    ("NodeRequest", {"kind": "SynchronizeRequest", "slotsPerSecond": 1e10}),
    ("GroupRequest", {"kind": "RemoveMemberRequest", "id": ""}),
    ("DeclarationChange", {"rating": 8}),
    ("StretchRequest", {"prefix": "", "ranges": []}),
    ("ScanRequest", {"prefix": "/films/", "cut": [], "columns": ["rating"]}),
    ("StoredRowsRequest", {"ranges": [[0, 0, 1]], "rowsPerSecond": 1e300}),
    ("NewLease", {"ttlMs": 1}),
    ("Declaration", {"path": "/a:/b"}),
    ("Declaration", {"path": "/a", "options": ["PERSISTENCE"]}),
    ("RoleSettings", {"topics": ["flights"]}),
    ("GroupSettings", {"partitions": 4}),
    ("QueryRequest", {"path": "/films", "select": "title/"}),
    ("NewRecord", {"key": "a"}),
    ("NewRecord", {"value": 1, "headers": {"": "a"}}),
    ("NodeRequest", {"kind": "CompactRequest", "beforeMicros": 0}),
]
"""Schema, and a body that nodes refuse."""


@pytest.mark.parametrize(("name", "body"), REFUSED, ids=[name for name, _ in REFUSED])
def test_bodies_that_nodes_refuse_are_invalid_by_their_schema(name: str, body: Any) -> None:
    components = {"components": {"schemas": SCHEMAS}}
    validator = Draft202012Validator({**components, "$ref": f"#/components/schemas/{name}"})
    assert not validator.is_valid(body)


async def test_a_header_or_parameter_is_described_only_where_it_has_effect(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    weak, factory = await declare(options=["PERSISTENCE", "REPLICATION"]), await declare()
    page = await described(client)

    def headers(path: str, method: str) -> set[str]:
        return headers_of(page, page["paths"][path][method])

    assert "Docstore-Lease" in headers(f"{factory}/{{id}}", "put")
    assert "Docstore-Lease" not in headers(f"{factory}/{{id}}", "delete")
    assert not {"Docstore-Lease", "Fence"} & headers(f"{weak}/{{id}}", "put")
    assert parameters_of(page, page["paths"]["/core/roles/{name}"]["get"]) == {"role"}
    assert parameters_of(page, page["paths"]["/core/groups/{name}"]["get"]) == set()
    assert page["components"]["schemas"][factory[1:]]["type"] == "object"


def test_a_sample_is_valid_by_its_declared_schema() -> None:
    validator = Draft202012Validator(SCHEMA)
    validator.validate(sample_of({**SCHEMA, "properties": {"size": {"$ref": "#/$defs/n"}}}))
    assert sample_of({"examples": [{"size": 7}], **SCHEMA}) == {"size": 7}
    assert sample_of({"properties": {"a": {"enum": ["x"]}, "b": {"default": 2}, "c": True}}) == {
        "a": "x", "b": 2, "c": "text",
    }  # fmt: skip


async def test_the_three_media_types_of_a_patch_have_schemas(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    factory = await declare()
    page = await described(client)
    content = page["paths"][f"{factory}/{{id}}"]["patch"]["requestBody"]["content"]
    schemas = {media: form["schema"]["$ref"] for media, form in content.items()}
    assert {media: ref.rpartition("/")[2] for media, ref in schemas.items()} == {
        "application/json": "Changes", "application/merge-patch+json": "MergePatch",
        "application/json-patch+json": "JsonPatch",
    }  # fmt: skip
    async with client.put(f"{factory}/a", json={"rating": 8, "note": "old"}) as answer:
        assert answer.status == 201
    for media, form in content.items():
        [example] = form["examples"].values()
        value = page["components"]["examples"][example["$ref"].rpartition("/")[2]]["value"]
        headers = {"Content-Type": media}
        async with client.patch(
            f"{factory}/a", data=orjson.dumps(value), headers=headers
        ) as answer:
            assert answer.status == 200, (media, await answer.text())
            assert (await answer.json())["rating"] == 8.1


@pytest.mark.parametrize(
    ("key", "is_good"),
    [("k", True), ("a b:c", True), ("k" * 128, True), ("k" * 129, False), ("a,b", False)],
)
async def test_the_schema_of_a_key_agrees_with_its_check(
    client: aiohttp.ClientSession, declare: Declare, key: str, is_good: bool
) -> None:
    factory = await declare()
    schema = (await described(client))["components"]["parameters"]["Idempotency-Key"]["schema"]
    assert Draft202012Validator(schema).is_valid(key) == is_good
    headers = {"Idempotency-Key": key}
    async with client.put(f"{factory}/a", json={}, headers=headers) as answer:
        assert (answer.status < 300) == is_good


async def test_the_description_is_served_compressed_and_with_an_etag(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    async with client.get(PATH, headers={"Accept-Encoding": "identity"}) as answer:
        plain, tag, whole = await answer.read(), answer.headers["ETag"], await answer.json()
        assert "Content-Encoding" not in answer.headers
    assert whole["servers"][0]["url"] == "/"
    async with client.get(PATH, headers={"Accept-Encoding": "br, gzip;q=0.8"}) as answer:
        assert (answer.headers["Content-Encoding"], answer.headers["ETag"]) == ("gzip", tag)
        assert int(answer.headers["Content-Length"]) < len(plain) // 8
        assert await answer.read() == plain
    async with client.get(PATH, headers={"Accept-Encoding": "gzip;q=0"}) as answer:
        assert "Content-Encoding" not in answer.headers
    async with client.get(PATH, headers={"If-None-Match": f'"x", {tag}'}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
    await declare()
    async with client.get(PATH, headers={"If-None-Match": tag}) as answer:
        assert (answer.status, answer.headers["ETag"] != tag) == (200, True)


SCHEMA = {
    "type": "object", "required": ["size"], "$defs": {"n": {"type": "integer"}},
    "properties": {
        "size": {"$ref": "#/$defs/n"}, "inner": {"$ref": "#"},
        "told": {"const": {"$ref": "#/$defs/n"}},
    },
}  # fmt: skip


async def test_a_declared_schema_has_the_same_meaning_in_the_description(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    factory = await declare(schema=SCHEMA)
    page = await described(client)
    content = page["paths"][f"{factory}/{{id}}"]["put"]["requestBody"]["content"]
    validator = Draft202012Validator({**page, **content["application/json"]["schema"]})
    assert validator.is_valid({"size": 1, "inner": {"size": 2}, "told": {"$ref": "#/$defs/n"}})
    assert not validator.is_valid({"size": "1"})
    assert not validator.is_valid({"size": 1, "inner": {"size": "2"}})
    assert not validator.is_valid({"size": 1, "told": 7})


@pytest.mark.thorough
async def test_the_description_is_valid_openapi(
    client: aiohttp.ClientSession, declare: Declare
) -> None:
    await declare(schema=SCHEMA)
    await declare(options=["PERSISTENCE", "REPLICATION"])
    page = await described(client)
    assert page["openapi"] == "3.1.0"
    OpenAPIV31SpecValidator(page).validate()


async def test_each_operation_has_a_name_of_its_own(client: aiohttp.ClientSession) -> None:
    templates = (await described(client))["paths"]
    operations = [item[method] for item in templates.values() for method in METHODS & set(item)]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names))
    assert all(each["summary"] and each["tags"] for each in operations)


async def test_each_component_is_referenced_and_each_reference_resolves(
    client: aiohttp.ClientSession,
) -> None:
    page = await described(client)
    whole = orjson.dumps(page).decode()
    for kind in ("schemas", "examples"):
        named = set(re.findall(rf"#/components/{kind}/([\w.-]+)", whole))
        found = set(page["components"][kind])
        assert named - found == set()
        # Conflicts are for factories of levels 1 and 2.
        assert found - named <= {"Conflicts"}, found - named
    text = orjson.dumps(page["paths"]).decode()
    parameters = set(re.findall(r"#/components/parameters/([\w.-]+)", text))
    keys = {each.replace("$", "_").replace("@", ".") for each in (*IN_QUERIES, *IN_HEADERS)}
    assert parameters == keys
    assert set(re.findall(r"#/components/headers/([\w-]+)", text)) == set(IN_ANSWERS)
    assert set(re.findall(r"\{(\w+)\}", " ".join(orjson.loads(text)))) == set(IN_PATHS)


def test_an_unreadable_factory_is_not_described() -> None:
    services = [DeclaredService(ServiceOptions(path=path, kind="k")) for path in ("/a", "/b")]
    page = document.described(services, lambda path: path == "/a")
    assert "/a/{id}" in page["paths"]
    assert '"/b' not in orjson.dumps(page).decode()


def test_factories_with_similar_names_have_separate_schemas() -> None:
    services = [
        DeclaredService(ServiceOptions(path=path, kind="k", schema={"title": path}))
        for path in ("/a/b", "/a.b", "/a", "/a/id", "/ä", "/Node")
    ]
    page = document.described(services, lambda _: True)
    schemas = page["components"]["schemas"]
    for each in services:
        body = page["paths"][each.options.path]["post"]["requestBody"]["content"]
        name = body["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert schemas[name]["title"] == each.options.path
    names = [
        item[method]["operationId"]
        for item in page["paths"].values()
        for method in METHODS & set(item)
    ]
    assert len(names) == len(set(names))


def test_the_number_of_described_factories_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "FACTORIES_MAX", 2)
    services = [DeclaredService(ServiceOptions(path=f"/f{n}", kind="k")) for n in range(5)]
    page = document.described(services, lambda _: True)
    assert {path for path in page["paths"] if path.startswith("/f")} >= {"/f0", "/f1"}
    assert not any(path.startswith("/f2") for path in page["paths"])
    assert "Of 5 factories the first 2 are described." in page["info"]["description"]
