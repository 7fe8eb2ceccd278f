"""The request of a query: parsed from a URL, a body, or the cursor of the previous page."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from docstore.errors import BadRequest
from docstore.http import headers
from docstore.http.listing import PAGE, PAGE_MAX
from docstore.http.parameters import flag
from docstore.model.document import EXPIRY, LEASE
from docstore.model.paths import canonical_link
from docstore.model.settings import quoted
from docstore.query.aggregates import Grouping, grouping_of
from docstore.query.ordering import Place, is_place, parse_order
from docstore.query.request import VERSIONS, condition_of
from docstore.query.selection import parse_selection
from docstore.query.tokens import Members

IN_URL = {
    "$filter": "filter", "$orderby": "orderBy", "$select": "select", "$limit": "limit",
    "$top": "top", "$count": "count", "$expand": "expand", "expand": "expand", "asOf": "asOf",
    "deleted": "deleted", "versions": "versions", "$explain": "explain",
}  # fmt: skip
"""Parameter -> the member of a body with the same meaning."""
MEANT = frozenset(
    {"$filter", "$orderby", "$select", "asOf", "deleted", "versions", "cursor", "$explain"}
)
"""Parameters by which a GET of a factory is a query, not a list."""
TEXTS = ("path", "filter", "where", "orderBy", "select", "asOf", "aggregates", "groupBy")
FLAGS = ("count", "expand", "deleted", "explain")
MEMBERS = frozenset({*TEXTS, *FLAGS, "limit", "top", "versions"})


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A checked query, with everything that its next page needs.

    limit: rows of a page. left: rows of all pages that are still to come, None for no limit. as_of:
    on the first page a word, a time or a name; on later pages the token of the cut. counted: number
    of matching documents, once known. after: the place after which the page begins.
    """

    path: str
    filter: str = ""
    where: str = ""
    order_by: str = ""
    select: str = ""
    expand: bool = False
    versions: str = "latest"
    deleted: bool = False
    aggregates: str = ""
    group_by: str = ""
    limit: int = PAGE
    left: int | None = None
    as_of: str = "latest"
    count: bool = False
    counted: int | None = None
    after: Place | None = None
    explain: bool = False

    @property
    def shows_documents(self) -> bool:
        """Whether the query asks for more than links."""
        return self.expand or bool(self.select)

    @property
    def looks_at_all(self) -> bool:
        """Whether each page must look at every document."""
        return not parse_order(self.order_by).is_by_link

    @property
    def grouping(self) -> Grouping | None:
        """The aggregates that the query asks for. Raises BadRequest."""
        return grouping_of(self.aggregates, self.group_by)

    @property
    def wanted(self) -> dict[str, Any]:
        """Return the condition on documents, as members of a scan."""
        return {
            "prefix": self.path + "/", "filter": self.filter, "where": self.where,
            "versions": self.versions, "deleted": self.deleted,
        }  # fmt: skip

    def at(self, cut: str, counted: int | None) -> "QueryRequest":
        """Return the query with its cut, and the number of documents found (None: not counted)."""
        return replace(self, as_of=cut, counted=counted)

    def behind(self, after: Place, shown: int) -> "QueryRequest | None":
        """Return the query for the next page, after `shown` rows of this one; None at its limit."""
        left = None if self.left is None else self.left - shown
        return replace(self, after=after, left=left) if left != 0 else None

    def packed(self) -> dict[str, Any]:
        """Return the content of a cursor: the members of a body, and where to continue."""
        said = {
            "path": self.path, "filter": self.filter, "where": self.where,
            "orderBy": self.order_by, "select": self.select, "expand": self.expand,
            "versions": self.versions, "deleted": self.deleted, "limit": self.limit,
            "top": self.left, "asOf": self.as_of, "count": self.count,
        }  # fmt: skip
        said |= {"explain": True} if self.explain else {}
        return {"said": said, "counted": self.counted, "after": self.after}


def of_url(path: str, query: Mapping[str, str]) -> QueryRequest:
    """Parse the parameters of a URL. Raises BadRequest."""
    empty = next(
        (name for name, text in query.items() if IN_URL[name] in TEXTS and not text.strip()), ""
    )
    if empty:
        raise BadRequest(f"{empty} must not be empty: give a value, or leave it out")
    given: dict[str, Any] = {IN_URL[name]: text for name, text in query.items()}
    for name in ("limit", "top"):
        if name in given:
            given[name] = headers.whole_number(given[name], f"${name}", 1, PAGE_MAX)
    for name in FLAGS:
        if name in given:
            given[name] = flag(given, name)
    return of_body({**given, "path": path})


def of_body(given: Mapping[str, Any]) -> QueryRequest:
    """Parse the members of a body. Raises BadRequest."""
    unknown = sorted(set(given) - MEMBERS)
    if unknown:
        raise BadRequest(f"a query must not have the member {quoted(unknown[0])}")
    texts = {name: given.get(name, "") for name in TEXTS}
    flags = {name: given.get(name, False) for name in FLAGS}
    if not all(isinstance(text, str) for text in texts.values()):
        raise BadRequest(f"each of {', '.join(TEXTS)} must be a string")
    if given.get("asOf") == "":
        raise BadRequest(
            "asOf must be latest, barrier, a time, the name of a snapshot or a token; got ''"
        )
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise BadRequest(f"each of {', '.join(FLAGS)} must be true or false")
    top = _number(given, "top", None)
    versions = given.get("versions", "latest")
    if versions not in VERSIONS:
        raise BadRequest(f"versions must be one of {', '.join(VERSIONS)}; got {quoted(versions)}")
    asked = QueryRequest(
        path=canonical_link(texts["path"].rstrip("/")),
        filter=texts["filter"], where=texts["where"],
        order_by=texts["orderBy"], select=texts["select"], expand=flags["expand"],
        versions=versions, deleted=flags["deleted"], aggregates=texts["aggregates"],
        group_by=texts["groupBy"], limit=_number(given, "limit", top or PAGE) or PAGE, left=top,
        as_of=texts["asOf"] or "latest", count=flags["count"], explain=flags["explain"],
    )  # fmt: skip
    check(asked)
    return asked


def of_cursor(packed: Mapping[str, Any]) -> QueryRequest:
    """Parse the content of a cursor. Raises BadRequest."""
    if packed.keys() != {"said", "counted", "after"} or not isinstance(packed["said"], dict):
        raise BadRequest("cursor was made by a node of another version: begin the query again")
    asked = of_body(packed["said"])
    counted, after = packed["counted"], packed["after"]
    if not is_place(parse_order(asked.order_by), after) or not isinstance(counted, int | None):
        raise BadRequest("cursor does not fit this query: begin the query again")
    return replace(asked, counted=counted, after=after)


def check(asked: QueryRequest, known: Members = None) -> None:
    """Refuse unknown expressions and contradictory members. Raises BadRequest.

    known: the members that the query may name.
    """
    condition_of({"where": asked.where, "filter": asked.filter}, known)
    parse_order(asked.order_by, known)
    parse_selection(asked.select)
    if asked.grouping is not None and (
        asked.order_by
        or asked.shows_documents
        or asked.count
        or asked.explain
        or asked.left is not None
    ):
        raise BadRequest(
            "aggregates cannot be combined with orderBy, select, expand, count, explain or top"
        )


def members_of(schema: Mapping[str, Any] | None) -> Members:
    """Return the members that a factory's schema names, None if it allows others."""
    if schema is None or schema.get("additionalProperties") is not False:
        return None
    if "patternProperties" in schema:
        return None
    return {*schema.get("properties", {}), EXPIRY, LEASE}


def _number(given: Mapping[str, Any], name: str, default: int | None) -> int | None:
    value = given.get(name, default)
    if value is not None and (type(value) is not int or not 1 <= value <= PAGE_MAX):
        raise BadRequest(f"{name} must be a whole number from 1 to {PAGE_MAX}; got {quoted(value)}")
    return value
