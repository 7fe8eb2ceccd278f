"""Schemas of bodies that several areas share."""

from docstore.http.openapi.schemas.shapes import (
    ANY,
    FLAG,
    MAYBE_TEXT,
    TEXT,
    THING,
    WHOLE,
    Schemas,
    either,
    many,
    of,
    one,
    only,
    ref,
    shown,
    text,
    told,
    whole,
)

STORED = {
    "documentSelfLink": TEXT, "documentKind": TEXT, "documentVersion": WHOLE,
    "documentEpoch": WHOLE, "documentOwner": TEXT, "documentUpdateTimeMicros": WHOLE,
    "documentUpdateAction": one("POST", "PUT", "PATCH", "DELETE", "RESOLVE"),
    "documentSignature": TEXT, "documentExpirationTimeMicros": WHOLE, "documentLeaseLink": TEXT,
    "documentAuthPrincipalLink": TEXT,
}  # fmt: skip
"""Members of each document that the store sets."""


def stored(link: str, kind: str, version: int = 0, action: str = "POST") -> dict[str, object]:
    """Return example values of the members that the store sets."""
    return {
        "documentSelfLink": link, "documentKind": kind, "documentVersion": version,
        "documentEpoch": 4, "documentOwner": "n2", "documentUpdateTimeMicros": 1795000000000000,
        "documentUpdateAction": action, "documentSignature": "5f70bf18a0860070",
    }  # fmt: skip


FILM = {"title": "Solaris", "year": 1972, "rating": 8.0}
SLOTS_A_SECOND = told({"type": "number", "minimum": 0, "maximum": 999_999_999}, "0 for no limit")
_FILM = {**FILM, **stored("/films/4", "films", 3, "PUT")}
FACTORY = text(r"^(/[A-Za-z0-9_~@!$&'()*+,;=-][A-Za-z0-9._~@!$&'()*+,;=-]*){1,31}:?$", most=512)
_WHOLE_LEVEL = {
    "description": "At least PERSISTENCE and REPLICATION; ENFORCE_QUORUM needs OWNER_SELECTION",
    "allOf": [{"contains": {"const": each}} for each in ("PERSISTENCE", "REPLICATION")],
}
_DECLARED = {
    "kind": text("^[ -~]+$", 1, 1024),
    "options": _WHOLE_LEVEL | many(one(
        "PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM",
        "STRICT_UPDATE_CHECKING", "IDEMPOTENT_POST", "IMMUTABLE", "ON_DEMAND_LOAD",
        "INSTRUMENTATION",
    )),
    "schema": told(THING, "JSON Schema 2020-12 of the documents"),
    "putCreates": FLAG, "requiresPrecondition": FLAG, "requiresFence": FLAG,
    "defaultExpirationSeconds": whole(0, 10**10),
    "retention": only(versions=whole(1, 1_000_000)),
    "nodeSelector": one("default"),
    "indexes": told(
        many(text(least=1, form="index"), 16),
        "Such as `status`, `year desc, title` or `cast[*]/name`",
    ),
}  # fmt: skip
_POINTER = text(r"^(/([^~]|~[01])*)?$")
"""A JSON Pointer (RFC 6901)."""
_REMOVE = only("", "op path", op=one("remove"), path=_POINTER)
_VALUED = only("", "op path value", op=one("add", "replace", "test"), path=_POINTER, value=ANY)
_MOVED = only("", "op path from", op=one("move", "copy"), path=_POINTER, **{"from": _POINTER})

SHARED: Schemas = {
    "Changes": shown(
        told(
            THING,
            "A change of members: for the handler of a service, and without one a merge patch. "
            "A member that is null is removed.",
        ),
        {"rating": 8.1},
    ),
    "MergePatch": shown(
        told(THING, "Members to set (RFC 7396). A member that is null is removed."),
        {"rating": 8.1, "note": None},
    ),
    # A generated Python client compares a body with each class, and cannot compare with an array.
    "JsonPatch": shown(
        {
            "description": "Steps, in order (RFC 6902). Paths are JSON Pointers.",
            "allOf": [many(ref("JsonPatchStep"))],
        },
        [{"op": "replace", "path": "/rating", "value": 8.1}],
    ),
    "JsonPatchStep": shown(
        either(_VALUED, _REMOVE, _MOVED), {"op": "replace", "path": "/rating", "value": 8.1}
    ),
    "Problem": shown(
        of(
            "An error (RFC 9457). `outcome` says whether anything may have happened. Some have "
            "further members, such as `parts`, `line` and `link`.",
            "type title status detail instance errorCode outcome",
            type=TEXT, title=TEXT, status=WHOLE, detail=TEXT, instance=TEXT, errorCode=TEXT,
            outcome=one("not_applied", "unknown"), message=TEXT, statusCode=WHOLE,
            documentKind=TEXT,
        ),
        {
            "type": "https://docstore.invalid/problems/malformed", "title": "Bad Request",
            "status": 400, "detail": "there is no parameter 'limit' here", "instance": "/films/4",
            "outcome": "not_applied", "message": "there is no parameter 'limit' here",
            "statusCode": 400, "errorCode": "malformed",
            "documentKind": "docstore:ServiceErrorResponse",
        },
    ),
    "Document": shown(
        of("The members that a client wrote, followed by those of the store.", **STORED)
        | {"additionalProperties": True},
        _FILM,
    ),
    "Page": shown(
        of(
            "Documents, or groups of them, and where the next ones are.",
            documentSelfLink=TEXT, documentKind=TEXT, documentLinks=many(TEXT), documents=THING,
            documentCount=WHOLE, nextPageLink=TEXT, cursor=TEXT, groups=many(THING), explain=THING,
        ),
        {
            "documentSelfLink": "/films", "documentKind": "films",
            "documentLinks": ["/films/27", "/films/4"], "documentCount": 61,
            "nextPageLink": "/films?$limit=2&after=/films/4",
        },
    ),
    "Versions": shown(
        of(documentSelfLink=TEXT, versions=many(ref("Document")), nextPageLink=TEXT),
        {
            "documentSelfLink": "/films/4", "versions": [_FILM],
            "nextPageLink": "/films/4/versions?from=2&limit=1",
        },
    ),
    "Conflicts": shown(
        of(documentSelfLink=TEXT, conflicts=many(ref("Document"))),
        {"documentSelfLink": "/notes/1", "conflicts": []},
    ),
    "Explanation": shown(
        of(
            documentSelfLink=TEXT, slot=WHOLE, slots=WHOLE, owner=MAYBE_TEXT, preferredOwner=TEXT,
            takesOverNext=MAYBE_TEXT, ranking=many(of(id=TEXT, distance=TEXT)),
            replicas=many(THING),
        ),
        {
            "slot": 17, "slots": 64, "owner": "n2", "preferredOwner": "n2", "takesOverNext": "n3",
            "ranking": [{"id": "n2", "distance": "0a4f"}, {"id": "n3", "distance": "51c0"}],
            "replicas": [],
        },
    ),
    "Available": shown(of(available=FLAG), {"available": True}),
    "Stats": shown(
        of(documentSelfLink=TEXT, kind=TEXT, entries=THING, nodesUnheard=many(TEXT)),
        {
            "documentSelfLink": "/films/stats", "kind": "ServiceStats",
            "entries": {"isAvailable": {"name": "isAvailable", "latestValue": 1.0}},
            "nodesUnheard": [],
        },
    ),
    "Template": shown(
        of("An empty document, and a description of its members.", documentDescription=THING),
        {"title": "", "year": 0, "documentSelfLink": "/films/template",
         "documentDescription": {"propertyDescriptions": {"title": {"typeName": "STRING"}}}},
    ),
    "Synchronization": shown(
        of(
            documentSelfLink=TEXT, kind=TEXT, reason=TEXT, owner=MAYBE_TEXT,
            status=one("AVAILABLE", "UNAVAILABLE", "SYNCHRONIZING"),
            last={"type": ["object", "null"]}, nodesUnheard=many(TEXT),
        ),
        {
            "documentSelfLink": "/films/synchronization", "kind": "SynchronizationState",
            "status": "AVAILABLE", "reason": "", "last": None, "nodesUnheard": [],
        },
    ),
    "Resynchronise": shown(
        only("An empty object will do.", kind={"type": "string", "const": "SynchronizeRequest"},
             slotsPerSecond=SLOTS_A_SECOND),
        {"kind": "SynchronizeRequest", "slotsPerSecond": 20},
    ),
    "Resynchronisation": shown(
        of(id=TEXT, state=TEXT, slots=THING, documents=THING, errors=many(TEXT)),
        {"id": "n2-1795000000000000", "state": "RUNNING", "slots": {"total": 64,
         "synchronised": 3}, "documents": {"compared": 120, "copied": 0, "settled": 0},
         "errors": []},
    ),
    "Declaration": shown(
        only(
            "A factory. Members whose names begin with `document` are those of the store.", "path",
            path=FACTORY, **_DECLARED,
        )
        | {"patternProperties": {"^document": ANY}},
        {"path": "/films", "schema": {"required": ["title"], "properties": {"title": TEXT}}},
    ),
    "DeclarationChange": shown(
        only("Members to set; the path and the level stay.", **_DECLARED),
        {"retention": {"versions": 100}},
    ),
}  # fmt: skip
