"""JSON Schemas from clients, made safe for the owner's one thread.

A schema is applied to every update by the owner of the document, so none may take for ever. What
the library would do slowly or dangerously is refused when the factory is declared, or done
differently: references stay inside the schema, regular expressions are bounded by the length of
the text that they meet, and uniqueness is decided by canonical forms.

Left out: linear-time regular expressions, which the standard library does not have.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from docstore.model import json
from docstore.model.service import Refusal

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SILENT = frozenset(
    "$schema $comment $anchor $dynamicAnchor $vocabulary $defs definitions title description"
    " examples deprecated then else minContains maxContains".split()
)
"""Keywords that only describe, or are read together with another one."""
REFERENCES = ("$ref", "$dynamicRef")
STEPS_MAX = 1 << 24
"""About a tenth of a second of matching."""

_ESCAPE_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_BACK_REFERENCE = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]|\(\?P=")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_UNBOUNDED = re.compile(r"[*+]|\{[0-9]*,[0-9]*\}")
_DEGREE_MAX = 3


def degree(pattern: str) -> int:
    """Return the power of the text's length that matching may take, at most.

    Each repetition without a bound adds one, and so does a search that may begin anywhere.
    Raises Refusal for what backtracks without such a bound.
    """
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise Refusal(f"schema: {pattern[:80]!r} is no pattern: {error}", status=400) from None
    plain = _ESCAPE_OR_CLASS.sub("x", pattern)
    if _BACK_REFERENCE.search(pattern) or _REPEATED_GROUP.search(plain):
        detail = f"schema: {pattern[:80]!r} repeats a group or refers back: it could take for ever"
        raise Refusal(detail, status=400)
    found = len(_UNBOUNDED.findall(plain)) + (not plain.startswith("^") or "|" in plain)
    if found > _DEGREE_MAX:
        detail = f"schema: {pattern[:80]!r} has too many repetitions: it could take for ever"
        raise Refusal(detail, status=400)
    return found


def length_max(pattern: str) -> int:
    """Return how long a text may be for the pattern to be tried on it."""
    return STEPS_MAX if (power := degree(pattern)) == 0 else int(STEPS_MAX ** (1 / power))


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise Refusal unless this is a JSON Schema that may be applied to every update."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Refusal(f"schema: {error.message}"[:500], status=400) from None
    except (RecursionError, ArithmeticError, ValueError) as error:
        raise Refusal(f"schema: {type(error).__name__}", status=400) from None
    for key, value in _members(schema):
        if key in REFERENCES and not (isinstance(value, str) and value.startswith("#")):
            raise Refusal("schema: references stay inside the schema", status=400)
        if key == "$id":
            raise Refusal("schema: parts of a schema have no $id here", status=400)
        if key == "pattern" and isinstance(value, str):
            degree(value)
        if key == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                if degree(pattern) > 1:
                    detail = f"schema: {pattern[:80]!r}: begin with ^ and repeat at most once"
                    raise Refusal(detail, status=400)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            yield from each.items()
            todo.extend(each.values())
        elif isinstance(each, list):
            todo.extend(each)


def unapplied(schema: Mapping[str, Any]) -> list[str]:
    """Return the keywords that `Schema` does not apply: unknown ones, and mere annotations.

    `format` is one of them: whether it refuses anything is left open by JSON Schema.
    """
    found: set[str] = set()
    todo: list[Any] = [schema]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            found |= {key for key in each if not key.startswith("x-")}
            todo.extend(DRAFT202012.subresources_of(each))
    return sorted(found - SILENT - (Draft202012Validator.VALIDATORS.keys() - {"format"}))


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    if len(instance) > length_max(pattern):
        yield ValidationError(f"a text of {len(instance)} characters is too long for its pattern")
    elif not re.search(pattern, instance):
        yield ValidationError(f"{instance[:100]!r} does not match {pattern[:100]!r}")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list):
        forms = {json.canonical(member) for member in instance}
        if len(forms) < len(instance):
            yield ValidationError("the array has a member twice")


_Validator = extend(Draft202012Validator, {"pattern": _pattern, "uniqueItems": _unique})  # type: ignore[no-untyped-call]


class Schema:
    """A schema that has been checked, ready to be applied."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        check_schema(schema)
        self._validator = _Validator(schema, registry=Registry())

    def check(self, state: Any) -> None:
        """Raise Refusal, with the place and the reason, when the state does not fit."""
        try:
            error = best_match(self._validator.iter_errors(state))
        except (Unresolvable, RecursionError, ArithmeticError, ValueError) as error:
            raise Refusal(f"the schema cannot be applied: {type(error).__name__}") from None
        if error is not None:
            raise Refusal(f"{error.json_path}: {error.message}"[:500])
