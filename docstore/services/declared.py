"""Services declared over HTTP: a path, options, perhaps a JSON Schema; no code.

A declaration is a document under /core/factories: replicated, versioned, and known to every node
soon after it is decided.
"""

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from docstore.errors import BadRequest
from docstore.model import patch
from docstore.model.fields import Fields
from docstore.model.paths import canonical, check_factory_path, has_keys
from docstore.model.service import (
    LEVEL_3,
    LEVELS,
    LINEARIZABLE,
    METHODS,
    Malformed,
    Method,
    Refusal,
    ServiceOptions,
    State,
    UpdateRequest,
    WithAuthor,
    level_of,
)
from docstore.model.settings import quoted
from docstore.query.indexes import INDEXES_MAX, parse_index
from docstore.services.unsupported_options import WARNINGS

if TYPE_CHECKING:
    from docstore.services.schemas import Schema

INSTRUMENTATION = "INSTRUMENTATION"
OPTIONS = frozenset(
    {
        "PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM",
        "STRICT_UPDATE_CHECKING", "IDEMPOTENT_POST", "ON_DEMAND_LOAD", "IMMUTABLE",
        INSTRUMENTATION,
    }
)  # fmt: skip
SERVICE = "service"
"""Member that names the class that makes the states of documents; written by nodes with that
class."""
MEMBERS = frozenset(
    {
        "path", "kind", "options", "schema", "putCreates", "requiresPrecondition", "requiresFence",
        "nodeSelector", "defaultExpirationSeconds", "indexes", "retention", SERVICE,
    }
)  # fmt: skip

REVISION_MAX = 1 << 53
VERSIONS_MAX = 1_000_000
"""Maximum number of versions that a declaration may keep of a document."""


class DeclaredService:
    """A kind of document whose rules are in a declaration."""

    def __init__(self, options: ServiceOptions) -> None:
        self.options = options
        self.checks = options.schema is not None

    @cached_property
    def _schema(self) -> "Schema":
        """The schema, made for the first state: `jsonschema` costs a start 45 ms and 8 MiB."""
        from docstore.services.schemas import Schema  # noqa: PLC0415

        assert self.options.schema is not None
        return Schema(self.options.schema)

    def check(self, state: State) -> None:
        if self.checks:
            self._schema.check(state)

    def patch(self, state: State, change: State) -> State | None:
        after: State = patch.merge(state, change)
        return after


def options_of(declaration: State) -> ServiceOptions:
    """Return the options of a declaration. Raises Refusal if it is invalid."""
    unknown = sorted(
        key for key in declaration if key not in MEMBERS and not key.startswith("document")
    )
    if unknown:
        raise Malformed(f"a declaration must not have the member {quoted(unknown[0])}")
    options = _options(declaration.get("options", list(LEVEL_3)))
    _check_wishes(declaration)
    path = path_of(declaration)
    if has_keys(path) and level_of(options) < LINEARIZABLE:
        raise Refusal("a factory with keys, whose path ends in a colon, must have ENFORCE_QUORUM")
    author, revision, methods = _author(declaration.get(SERVICE))
    return ServiceOptions(
        path=path,
        kind=_kind(declaration.get("kind", path[1:].rstrip(":").replace("/", ":"))),
        options=options,
        put_creates=_flag(declaration, "putCreates", default=True),
        strict_updates="STRICT_UPDATE_CHECKING" in options,
        idempotent_post="IDEMPOTENT_POST" in options,
        immutable="IMMUTABLE" in options,
        needs_precondition=_flag(declaration, "requiresPrecondition", default=False),
        requires_fence=_fenced(declaration, level_of(options)),
        schema=_schema(declaration.get("schema")),
        level=level_of(options),
        indexes=_indexes(declaration.get("indexes", [])),
        versions=_versions(declaration.get("retention", {}), level_of(options)),
        expires_after_s=_seconds(declaration.get("defaultExpirationSeconds", 0)),
        author=author,
        revision=revision,
        methods=methods,
    )


def in_force(options: ServiceOptions) -> State:
    """Return a full declaration, with the defaults of members that the author left out.

    It does not contain members without effect (`unsupported_options.py`).
    """
    said: State = {
        "path": options.path,
        "kind": options.kind,
        "options": list(options.options),
        "putCreates": options.put_creates,
        "requiresPrecondition": options.needs_precondition,
        "requiresFence": options.requires_fence,
        "nodeSelector": "default",
        "defaultExpirationSeconds": options.expires_after_s,
        "indexes": list(options.indexes),
        "retention": {"versions": options.versions} if options.versions else {},
    }
    return said if options.schema is None else {**said, "schema": options.schema}


def _check_wishes(declaration: State) -> None:
    """Refuse members that would change results but are not implemented.

    Those about space or time alone are accepted with a warning: see `unsupported_options.py`.
    """
    if declaration.get("nodeSelector", "default") != "default":
        raise Refusal(
            f'`nodeSelector` must be "default"; got {quoted(declaration["nodeSelector"])}'
        )


def path_of(declaration: State) -> str:
    """Return the path that a declaration declares. Raises Refusal."""
    value = declaration.get("path")
    if not isinstance(value, str):
        raise Malformed(
            f"`path` must be the path of a factory, such as /orders; got {quoted(value)}"
        )
    try:
        path = canonical(value)
        check_factory_path(path)
    except BadRequest as error:
        raise Malformed(f"path: {error}") from None
    return path


def _author(said: Any) -> tuple[str, int, tuple[Method, ...]]:
    """Return the name of a class, its revision, and its methods."""
    if said is None:
        return "", 0, METHODS
    fields = Fields({SERVICE: said}).inner(SERVICE)
    named, revision = fields.text("class"), fields.whole("revision", 0, REVISION_MAX)
    methods = fields.texts("methods")
    fields.end()
    if set(methods) - set(METHODS):
        raise Malformed(f"`methods` must be an array of {', '.join(METHODS)}")
    return named, revision, tuple(each for each in METHODS if each in methods)


def _options(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Malformed("`options` must be an array of strings")
    unknown = sorted(set(value) - OPTIONS)
    if unknown:
        raise Malformed(f"`options` contains {quoted(unknown[0])}, which is no option")
    missing = [each for each in LEVELS[0] if each not in value]
    if missing:
        raise Refusal(f"`options` must include {', '.join(missing)}")
    if "ENFORCE_QUORUM" in value and "OWNER_SELECTION" not in value:
        raise Refusal("`options` with ENFORCE_QUORUM must include OWNER_SELECTION")
    return tuple(dict.fromkeys(value))


def _schema(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Malformed(f"schema must be an object; got {quoted(value)}")
    from docstore.services.schemas import check_schema  # noqa: PLC0415 - As in `_schema`.

    check_schema(value)
    return value


def _flag(declaration: State, key: str, *, default: bool) -> bool:
    value = declaration.get(key, default)
    if not isinstance(value, bool):
        raise Malformed(f"{key} must be true or false; got {quoted(value)}")
    return value


def _fenced(declaration: State, level: int) -> bool:
    fenced = _flag(declaration, "requiresFence", default=False)
    if fenced and level < 3:
        raise Refusal(
            "`requiresFence` must be false without the option ENFORCE_QUORUM: "
            "without it, writes have no order"
        )
    return fenced


def _indexes(value: Any) -> tuple[str, ...]:
    """Return the declared indexes. Earlier versions stored some that cannot be made."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Malformed("`indexes` must be an array of texts, such as status or year desc, title")
    return tuple(value)


def checked_options(declaration: State) -> ServiceOptions:
    """Return the options of a new declaration. Raises Refusal, also for an invalid index."""
    options = options_of(declaration)
    if len(options.indexes) > INDEXES_MAX:
        raise Malformed(
            f"`indexes` must have at most {INDEXES_MAX} members; got {len(options.indexes)}"
        )
    for text in options.indexes:
        try:
            parse_index(text)
        except BadRequest as error:
            raise Malformed(f"`indexes`: {error}") from None
    return options


def _seconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**10:
        raise Malformed(
            f"defaultExpirationSeconds must be 0 (never) to {10**10}; got {quoted(value)}"
        )
    return value


def _versions(retention: Any, level: int) -> int:
    """Return the number of versions that a document keeps, 0 for all or below level 3."""
    versions = retention.get("versions", 0) if isinstance(retention, dict) else None
    if isinstance(versions, bool) or not isinstance(versions, int) or set(retention) - {"versions"}:
        raise Malformed('`retention` must be an object such as {"versions": 100}')
    if retention and not 1 <= versions <= VERSIONS_MAX:
        raise Malformed(f"`retention.versions` must be from 1 to {VERSIONS_MAX}; got {versions}")
    return versions if level == LINEARIZABLE else 0


def _kind(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1024 or not value.isprintable():
        raise Malformed("`kind` must be a string of 1 to 1024 printable characters")
    return value


class FactoryService(WithAuthor):
    """The service of declarations themselves, at /core/factories.

    A node declares the classes that it has by an action of the store itself, not by this service.
    Clients may only delete such a declaration, since changing it would not change the class.
    """

    options = ServiceOptions(path="/core/factories", kind="docstore:Factory", put_creates=False)
    handled: Collection[str] = ("PUT",)

    def make(self, asked: UpdateRequest, before: State | None, body: State) -> State:
        """Replace a declaration by another one."""
        _check_plain(before)
        return body

    def check(self, state: State) -> None:
        checked_options(state)
        if SERVICE in state:
            raise Malformed(f"{SERVICE} must be left out: nodes started with --service declare it")

    def patch(self, state: State, change: State) -> State | None:
        """Merge a change into a declaration; its path must stay."""
        _check_plain(state)
        own = {name: value for name, value in change.items() if name != WARNINGS}
        after: State = patch.merge(state, own)
        if after.get("path") != state.get("path"):
            raise Refusal("`path` cannot be changed: declare another factory", status=409)
        if options_of(after).level != options_of(state).level:
            raise Refusal(
                "a PATCH cannot change the level of a factory: PUT the whole declaration",
                status=409,
            )
        return None if after == state else after


def _check_plain(declaration: State | None) -> None:
    if declaration is not None and SERVICE in declaration:
        raise Refusal(
            ("nodes started with --service declare this factory: change the class of the service"),
            status=409,
        )
