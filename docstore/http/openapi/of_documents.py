"""What is asked of documents: by their factories, one by one, many at a time."""

from collections.abc import Mapping
from typing import Any

from docstore.http.openapi.operation import About, Op
from docstore.model.service import ServiceOptions

Json = dict[str, Any]
READING = ("Docstore-Consistency", "Docstore-Min-Version", "Docstore-Timeout-Ms")
WRITING = (
    "If-Match", "If-None-Match", "Idempotency-Key", "Fence", "Docstore-Quorum", "Docstore-Lease",
    "Docstore-Timeout-Ms",
)  # fmt: skip
PATCHES = ("application/json", "application/merge-patch+json", "application/json-patch+json")
VALUES = frozenset({"const", "enum", "default", "examples"})
LIST = ("$filter", "$orderby", "$select", "$limit", "$top", "$count", "expand", "asOf", "after",
        "cursor")  # fmt: skip
LISTED = ("expand", "$limit", "$top", "$count", "after")
QUERYING = ("Docstore-Timeout-Ms",)
CHANGING = ("If-Match", "If-None-Match", "Idempotency-Key", *QUERYING)

MANY = About(
    "many documents", "Queries, bulk requests, past versions, by pages of their own.",
    {
        "/core/query-tasks": {
            "POST": Op("Documents by what is in them, or groups of them", {200: "Page"},
                       "QueryRequest", headers=QUERYING),
            "GET": Op("The next page of a query", {200: "Page"}, query=("cursor",),
                      headers=QUERYING),
        },
        "/core/bulk": {
            "POST": Op(
                "One operation a line", {200: "application/x-ndjson"},
                ("application/x-ndjson", "application/msgpack"), query=("atomic",),
                headers=("Idempotency-Key", "Fence", *QUERYING),
                tells="`{op, link, body, ifVersion?, ...}` a line; a line of results for each, in "
                "order. Each line succeeds or fails by itself, unless it is `atomic`.",
            ),
        },
        "/core/subscriptions": {
            "GET": Op("The subscriptions that are yours to see", {200: "Page"}, query=LISTED),
        },
        "/core/subscriptions/{id}": {
            "GET": Op("A subscription, and how far it is", {200: "Document"}),
            "PATCH": Op("Pause it, or go on", {200: "Document"}, "SubscriptionRequest",
                        headers=CHANGING),
            "DELETE": Op("End it", {200: "Document"}, headers=CHANGING),
        },
        "/core/document-index": {
            "GET": Op("A document, by its path as a parameter", {200: "Document"},
                      query=("documentSelfLink", "documentVersion"), headers=READING),
        },
    },
)  # fmt: skip


def factory_paths(options: ServiceOptions, one: str, schema: str) -> Mapping[str, Mapping[str, Op]]:
    """Return what is answered at a factory and below it.

    one: the path of a document of it. schema: of what its author writes.
    """
    return {
        options.path: _factory(options, schema),
        one: _document(options, schema),
        **utilities(options.path, one, options.level),
    }


def utilities(factory: str, one: str, level: int = 3) -> Mapping[str, Mapping[str, Op]]:
    """Return what is answered of each factory and each document, whatever they are."""
    told: dict[str, Mapping[str, Op]] = {
        f"{factory}/config": {
            "GET": Op("What is declared, and in force", {200: "Document"}),
            "PATCH": Op("Change the declaration", {200: "Document"}, PATCHES, headers=WRITING),
        },
        f"{one}/config": {"GET": Op("That of its factory", {200: "Document"})},
        **_of_both(factory, one),
        f"{one}/versions": {
            "GET": Op("Its history, the newest first", {200: "Versions"},
                      query=("from@versions", "limit@versions"), headers=QUERYING),
        },
        f"{one}/explain": {
            "GET": Op("Where it is and why, and who takes over next", {200: "Explanation"},
                      headers=QUERYING),
        },
    }  # fmt: skip
    if level < 3:
        told[f"{one}/conflicts"] = {
            "GET": Op("Branches that lost", {200: "Object"}, headers=READING),
            "DELETE": Op("Declare them seen", {200: "Document"}, headers=QUERYING),
        }
    return told


def _of_both(factory: str, one: str) -> Mapping[str, Mapping[str, Op]]:
    """Return what is answered alike of a factory and of a document."""
    told: dict[str, Mapping[str, Op]] = {}
    for path in (factory, one):
        told |= {
            f"{path}/available": {"GET": Op("Whether the group can serve it", {200: "Object"})},
            f"{path}/stats": {"GET": Op("What was measured of it", {200: "Object"})},
            f"{path}/template": {"GET": Op("An empty document, described", {200: "Object"})},
            f"{path}/synchronization": {
                "GET": Op("What its last resynchronisation says", {200: "Object"}),
                "PATCH": Op("Resynchronise it", {200: "Object", 202: "Object"}, "Object",
                            headers=("Prefer", *QUERYING)),
            },
            f"{path}/subscriptions": {
                "GET": Op("Who is called of its changes", {200: "Page"}, query=LISTED),
                "POST": Op("Have a receiver called of its changes",
                           {200: "Document", 201: "Document"},
                           "NewSubscription", headers=("Idempotency-Key", *QUERYING)),
                "DELETE": Op("End one", {200: "Document"}, query=("id@subscription",),
                             headers=CHANGING),
            },
        }  # fmt: skip
    return told


def _factory(options: ServiceOptions, schema: str) -> Mapping[str, Op]:
    told = {"GET": Op("List documents, or query them", {200: "Page"}, query=LIST, headers=QUERYING)}
    if "POST" in options.methods:
        replaces = {200: "Document"} if options.idempotent_post else {}
        told["POST"] = Op(
            "Create a document", {201: "Document", **replaces}, schema,
            headers=("Prefer", *WRITING),
        )  # fmt: skip
    return told


def _document(options: ServiceOptions, schema: str) -> Mapping[str, Op]:
    told = {
        "GET": Op("Read it", {200: "Document", 304: ""}, query=("documentVersion", "at"),
                  headers=("If-None-Match", *READING)),
    }  # fmt: skip
    made = {201: "Document"} if options.put_creates else {}
    changes = {
        "PUT": Op("Replace it", {200: "Document", **made}, schema, headers=WRITING),
        "PATCH": Op("Change members of it", {200: "Document"}, PATCHES, headers=WRITING),
        "DELETE": Op("Delete it", {200: "Document"}, headers=WRITING),
    }
    return told | {method: op for method, op in changes.items() if method in options.methods}


def written_schema(options: ServiceOptions, name: str) -> Json:
    """Return the schema of what an author writes into documents of a factory.

    name: under which it stands in the description, where its references within itself lead now.
    """
    if options.schema is None:
        return {"type": "object"}
    moved: Json = _moved(options.schema, f"#/components/schemas/{name}")
    return moved


def _moved(schema: Any, root: str) -> Any:
    """Return a schema whose references begin at another root. What a value may be is no schema."""
    if isinstance(schema, list):
        return [_moved(each, root) for each in schema]
    if not isinstance(schema, Mapping) or "$id" in schema:
        return schema
    told = {key: value if key in VALUES else _moved(value, root) for key, value in schema.items()}
    match told.get("$ref"):
        case "#":
            told["$ref"] = root
        case str(ref) if ref.startswith("#/"):
            told["$ref"] = root + ref[1:]
    return told
