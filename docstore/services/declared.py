"""Services declared over HTTP: a path, options, perhaps a JSON Schema; no code.

A declaration is a document under /core/factories: replicated, versioned, and known to every node
soon after it is decided.
"""

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match

from docstore import patch
from docstore.errors import BadRequest
from docstore.paths import canonical, check_factory_path
from docstore.service import LEVEL_3, Refusal, ServiceOptions, State

OPTIONS = frozenset(
    {
        "PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM",
        "STRICT_UPDATE_CHECKING", "IDEMPOTENT_POST", "ON_DEMAND_LOAD", "IMMUTABLE",
        "INSTRUMENTATION",
    }
)  # fmt: skip
MEMBERS = frozenset(
    {
        "path", "kind", "options", "schema", "putCreates", "requiresPrecondition", "nodeSelector",
        "defaultExpirationSeconds",
    }
)  # fmt: skip


class DeclaredService:
    """One kind of document, as its declaration says."""

    def __init__(self, options: ServiceOptions) -> None:
        self.options = options
        schema = options.schema
        self._validator = Draft202012Validator(schema) if schema else None
        self.checks = self._validator is not None

    def check(self, state: State) -> None:
        """Refuse a state that the schema does not allow."""
        if self._validator is None:
            return
        error = best_match(self._validator.iter_errors(state))
        if error is not None:
            raise Refusal(f"{error.json_path}: {error.message}"[:500])

    def patch(self, state: State, change: State) -> State | None:
        """Merge the change (RFC 7396)."""
        after: State = patch.merge(state, change)
        return after


def options_of(declaration: State) -> ServiceOptions:
    """Return what a declaration says. Raises Refusal when it cannot stand."""
    unknown = sorted(
        key for key in declaration if key not in MEMBERS and not key.startswith("document")
    )
    if unknown:
        raise Refusal(f"a declaration has no member {unknown[0]!r}", status=400)
    options = _options(declaration.get("options", list(LEVEL_3)))
    path = _path(declaration.get("path"))
    return ServiceOptions(
        path=path,
        kind=_text(declaration, "kind", path[1:].replace("/", ":")),
        options=options,
        put_creates=_flag(declaration, "putCreates", default=True),
        strict_updates="STRICT_UPDATE_CHECKING" in options,
        idempotent_post="IDEMPOTENT_POST" in options,
        immutable="IMMUTABLE" in options,
        needs_precondition=_flag(declaration, "requiresPrecondition", default=False),
        schema=_schema(declaration.get("schema")),
    )


def _path(value: Any) -> str:
    if not isinstance(value, str):
        raise Refusal("path is required: the factory's path, such as /orders", status=400)
    try:
        path = canonical(value)
        check_factory_path(path)
    except BadRequest as error:
        raise Refusal(f"path: {error}", status=400) from None
    return path


def _options(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Refusal("options is an array of strings", status=400)
    unknown = sorted(set(value) - OPTIONS)
    if unknown:
        raise Refusal(f"there is no option {unknown[0]!r}", status=400)
    missing = [each for each in LEVEL_3 if each not in value]
    if missing:
        raise Refusal(
            f"without {', '.join(missing)} documents would be weaker than this version offers"
        )
    return tuple(dict.fromkeys(value))


def _schema(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Refusal("schema is a JSON Schema object", status=400)
    if "$ref" in str(value) and "://" in str(value):
        raise Refusal("schema: references to other documents are not followed", status=400)
    try:
        Draft202012Validator.check_schema(value)
    except SchemaError as error:
        raise Refusal(f"schema: {error.message}"[:500], status=400) from None
    return value


def _flag(declaration: State, key: str, *, default: bool) -> bool:
    value = declaration.get(key, default)
    if not isinstance(value, bool):
        raise Refusal(f"{key} is true or false", status=400)
    return value


def _text(declaration: State, key: str, default: str) -> str:
    value = declaration.get(key, default)
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise Refusal(f"{key} is a short string", status=400)
    return value


class FactoryService:
    """The service of declarations themselves, at /core/factories."""

    options = ServiceOptions(path="/core/factories", kind="docstore:Factory", put_creates=False)
    checks = True

    def check(self, state: State) -> None:
        """Refuse a declaration that cannot stand."""
        options_of(state)

    def patch(self, state: State, change: State) -> State | None:
        """Merge the change; a factory does not move."""
        after: State = patch.merge(state, change)
        if after.get("path") != state.get("path"):
            raise Refusal("the path of a factory does not change", status=409)
        return None if after == state else after
