"""The routes of documents: factories, single documents, bulk requests, and utilities."""

from collections.abc import Mapping, Sequence
from typing import Any

from docstore.http.bulk import Bulk
from docstore.http.core_pages import CorePages
from docstore.http.history import HistoryPages
from docstore.http.queries import QueryPages
from docstore.http.representation import MSGPACK_TYPE
from docstore.http.results import NDJSON_TYPE
from docstore.http.routes.route import (
    ADMIN,
    ANYBODY,
    DECLARED,
    INSIDE,
    READ,
    WRITE,
    About,
    Body,
    Op,
    Ops,
    Permissions,
    Route,
    Utility,
)
from docstore.http.subscriptions import SubscriptionPages
from docstore.http.utilities import UtilityPages
from docstore.model.service import LINEARIZABLE, ServiceOptions
from docstore.services.registry import (
    DEAD_LETTERS,
    EXAMPLES,
    FACTORIES,
    FEED_KEYS,
    JOBS,
    QUOTAS,
    SNAPSHOTS,
)
from docstore.services.subscriptions import SUBSCRIPTIONS

Json = dict[str, Any]
READING = ("Docstore-Consistency", "Docstore-Min-Version", "Docstore-Timeout-Ms")
WRITING = (
    "If-Match", "If-None-Match", "Idempotency-Key", "Fence", "Docstore-Quorum", "Docstore-Lease",
    "Docstore-Timeout-Ms",
)  # fmt: skip
PATCHES = (
    Body("Changes"), Body("MergePatch", "application/merge-patch+json"),
    Body("JsonPatch", "application/json-patch+json"),
)  # fmt: skip
OF_DECLARATIONS = (
    Body("DeclarationChange"), Body("DeclarationChange", "application/merge-patch+json"),
)  # fmt: skip
OF_LEVEL_3 = frozenset({"Fence", "Docstore-Lease"})
LINES = (Body("BulkLine", NDJSON_TYPE), Body("BulkLine", MSGPACK_TYPE))
RESULTS = (Body("BulkResult", NDJSON_TYPE),)
VALUES = frozenset({"const", "enum", "default", "examples"})
LIST = ("$filter", "$orderby", "$select", "$limit", "$top", "$count", "$explain", "expand", "asOf",
        "after", "cursor")  # fmt: skip
LISTED: Sequence[str] = ("expand", "$limit", "$top", "$count", "after")
CONFLICTS = "conflicts"
"""Name of a utility that only documents of levels 1 and 2 have."""
QUERYING = ("Docstore-Timeout-Ms",)
CHANGING: Sequence[str] = ("If-Match", "If-None-Match", "Idempotency-Key", *QUERYING)

_INSIDE = Permissions(INSIDE, INSIDE)
DOCUMENTS: Permissions = Permissions(READ, WRITE)
FACTORIES_OF_THE_STORE: Sequence[Route] = (
    Route(
        FACTORIES,
        {},
        permissions=Permissions(DECLARED, DECLARED, makes=INSIDE),
        schema="Declaration",
    ),
    Route(FEED_KEYS, {}, permissions=Permissions(ADMIN, ADMIN)),
    Route(SNAPSHOTS, {}, permissions=DOCUMENTS, schema="Snapshot"),
    Route(JOBS, {}, permissions=DOCUMENTS),
    Route(DEAD_LETTERS, {}, permissions=DOCUMENTS),
    Route(QUOTAS.path, {}, permissions=Permissions(READ, ADMIN), schema="Quota"),
    Route(EXAMPLES.path, {}, permissions=DOCUMENTS),
)
"""The store's own factories whose documents are served as those of any other factory."""

MANY: About = About(
    "many documents", "Queries, bulk requests, past versions, by pages of their own.",
    (
        Route("/core/query-tasks", {
            "POST": Op("Documents by what is in them, or groups of them", {200: "Page"},
                       "QueryRequest", QueryPages.serve, headers=QUERYING),
            "GET": Op("The next page of a query", {200: "Page"}, handler=QueryPages.serve,
                      query=("cursor@queries",), headers=QUERYING),
        }, QueryPages, _INSIDE),
        Route("/core/bulk", {
            "POST": Op(
                "One operation a line", {200: RESULTS}, LINES, Bulk.serve, query=("atomic",),
                headers=("Idempotency-Key", "Fence", *QUERYING), receives=False,
                tells="`{op, link, body, ifVersion?, ...}` a line; a line of results for each, in "
                "order. Each line succeeds or fails by itself, unless it is `atomic`: then the "
                "documents share a partition key, and the request may have an `Idempotency-Key` "
                "and a `Fence`.",
            ),
        }, Bulk, Permissions(ANYBODY, INSIDE), is_literal=True),
        Route(SUBSCRIPTIONS, {
            "GET": Op("The subscriptions that are yours to see", {200: "Page"},
                      handler=SubscriptionPages.get_list, query=LISTED, checks_query=False),
        }, SubscriptionPages, _INSIDE),
        Route(f"{SUBSCRIPTIONS}/{{id}}", {
            "GET": Op("A subscription, and how far it is", {200: "Document"},
                      handler=SubscriptionPages.get),
            "PATCH": Op("Pause it, or go on", {200: "Document"}, "SubscriptionRequest",
                        SubscriptionPages.patch, headers=CHANGING, audited=True),
            "DELETE": Op("End it", {200: "Document"}, handler=SubscriptionPages.delete,
                         headers=CHANGING, audited=True),
        }, SubscriptionPages),
        Route("/core/document-index", {
            "GET": Op("A document, by its path as a parameter", {200: "Document"},
                      handler=CorePages.document_index, checks_query=False,
                      query=("documentSelfLink", "documentVersion"), headers=READING),
        }, CorePages, Permissions(INSIDE)),
    ),
)  # fmt: skip


def _of_both(pages: type[Any], ops: Ops) -> Utility:
    return Utility(pages, ops, ops)


UTILITIES: Mapping[str, Utility] = {
    "config": Utility(
        UtilityPages,
        {
            "GET": Op("The settings that are declared, and in force", {200: "Document"},
                      handler=UtilityPages.config, checks_query=False),
            "PATCH": Op("Change the declaration", {200: "Document"}, OF_DECLARATIONS,
                        UtilityPages.config, headers=WRITING),
        },
        {"GET": Op("That of its factory", {200: "Document"}, handler=UtilityPages.config,
                   checks_query=False)},
    ),
    "available": _of_both(UtilityPages, {
        "GET": Op("Whether the group can serve it", {200: "Available"},
                  handler=UtilityPages.available),
    }),
    "stats": _of_both(UtilityPages, {
        "GET": Op("Its measurements", {200: "Stats"}, handler=UtilityPages.stats),
    }),
    "template": _of_both(UtilityPages, {
        "GET": Op("An empty document, described", {200: "Template"}, handler=UtilityPages.template),
    }),
    "synchronization": _of_both(UtilityPages, {
        "GET": Op("The result of its last resynchronisation", {200: "Synchronization"},
                  handler=UtilityPages.synchronization),
        "PATCH": Op("Resynchronise it", {200: "Resynchronisation", 202: "Resynchronisation"},
                    "Resynchronise", UtilityPages.synchronize, headers=("Prefer", *QUERYING)),
    }),
    "subscriptions": _of_both(SubscriptionPages, {
        "GET": Op("The receivers of its changes", {200: "Page"}, query=LISTED, checks_query=False,
                  handler=SubscriptionPages.get_list_of_path),
        "POST": Op("Have a receiver called of its changes", {200: "Document", 201: "Document"},
                   "NewSubscription", SubscriptionPages.create,
                   tells="400 `callback-refused` where the operator allows no such host.",
                   headers=("Idempotency-Key", *QUERYING), audited=True),
        "DELETE": Op("End one", {200: "Document"}, handler=SubscriptionPages.delete_of_path,
                     query=("id@subscription",), headers=CHANGING, audited=True),
    }),
    "versions": Utility(HistoryPages, {}, {
        "GET": Op("Its history, the newest first", {200: "Versions"},
                  handler=HistoryPages.versions, query=("from@versions", "limit@versions"),
                  headers=QUERYING),
    }),
    "explain": Utility(CorePages, {}, {
        "GET": Op("Its slot, owner and replicas, and how they were chosen", {200: "Explanation"},
                  handler=CorePages.explain, headers=QUERYING),
    }),
    CONFLICTS: Utility(HistoryPages, {}, {
        "GET": Op("Branches that lost", {200: "Conflicts"}, handler=HistoryPages.conflicts,
                  headers=READING),
        "DELETE": Op("Declare them seen", {200: "Document"}, handler=HistoryPages.resolve,
                     headers=QUERYING),
    }),
}  # fmt: skip
"""Name -> operations at that name below each factory and each document."""


def factory_paths(options: ServiceOptions, one: str, schema: str) -> Mapping[str, Ops]:
    """Return path -> operations of a factory, its documents and their utilities.

    one: the path of its documents. schema: name of the schema that authors write.
    """
    return {
        options.path: _factory(options, schema),
        one: _document(options, schema),
        **utilities(options.path, one, options.level),
    }


def utilities(factory: str, one: str, level: int = 3) -> Mapping[str, Ops]:
    """Return path -> operations of the utilities of a factory and its documents."""
    return {
        f"{at}/{name}": ops
        for name, utility in UTILITIES.items()
        for at, ops in ((factory, utility.of_factory), (one, utility.of_document))
        if ops and (name != CONFLICTS or level < LINEARIZABLE)
    }


def described_utilities(factory: str, one: str) -> Sequence[Route]:
    """Return the utilities of the store's own documents as routes without handlers."""
    return [Route(path, ops) for path, ops in utilities(factory, one).items()]


def _factory(options: ServiceOptions, schema: str) -> Ops:
    told = {"GET": Op("List documents, or query them", {200: "Page"}, query=LIST, headers=QUERYING)}
    if "POST" in options.methods:
        replaces = {200: "Document"} if options.idempotent_post else {}
        told["POST"] = Op(
            "Create a document", {201: "Document", **replaces}, schema,
            headers=("Prefer", *_writing(options)),
        )  # fmt: skip
    return told


def _document(options: ServiceOptions, schema: str) -> Ops:
    told = {
        "GET": Op("Read it", {200: "Document", 304: ""}, query=("documentVersion", "at"),
                  headers=("If-None-Match", *READING)),
    }  # fmt: skip
    made = {201: "Document"} if options.put_creates else {}
    writing = _writing(options)
    deleting = [each for each in writing if each != "Docstore-Lease"]
    changes = {
        "PUT": Op("Replace it", {200: "Document", **made}, schema, headers=writing),
        "PATCH": Op("Change members of it", {200: "Document"}, _patches(options), headers=writing),
        "DELETE": Op("Delete it", {200: "Document"}, headers=deleting),
    }
    return told | {method: op for method, op in changes.items() if method in options.methods}


def _patches(options: ServiceOptions) -> Sequence[Body]:
    return PATCHES if options.path != FACTORIES else OF_DECLARATIONS


def _writing(options: ServiceOptions) -> Sequence[str]:
    """Return the headers of updates, without those that need level 3 where the level is lower."""
    return [each for each in WRITING if options.level == LINEARIZABLE or each not in OF_LEVEL_3]


def written_schema(options: ServiceOptions, name: str) -> Json:
    """Return the schema of the author's members in a factory's documents.

    name: of the schema in the OpenAPI description, to which its internal references are moved.
    """
    schema = options.schema or options.described_by
    if schema is None:
        return {"type": "object", "additionalProperties": True}
    moved: Json = _moved(schema, f"#/components/schemas/{name}")
    return {"type": "object", **moved}


def _moved(schema: Any, root: str) -> Any:
    """Return a schema with its references moved to another root. `VALUES` hold no schemas."""
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
