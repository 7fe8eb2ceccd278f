"""JSON Schemas from clients, made safe for the owner's only thread.

The owner of a document applies its schema to every update, so the time must be bounded. Slow or
dangerous features of the library are refused at the declaration, or implemented differently:
references stay inside the schema, the length of a text bounds the matching of a regular expression,
and uniqueness is checked by canonical forms. Left out: linear-time regular expressions, which the
standard library does not have.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from docstore.model import json
from docstore.model.service import Malformed, Refusal
from docstore.model.settings import quoted

SILENT = frozenset(
    "$schema $comment $anchor $dynamicAnchor $vocabulary $defs definitions title description"
    " examples deprecated then else minContains maxContains".split()
)
"""Keywords that only describe, or that another keyword reads."""
REFERENCES = ("$ref", "$dynamicRef")
STEPS_MAX = 1 << 24
"""Maximum steps of matching a pattern: about a tenth of a second."""
KEYWORDS_MAX, KEYWORDS_A_BYTE = 10_000, 4
"""Keywords that may be applied to a document: a base, and more for each of its bytes."""
IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas are applied to the same value."""

_ESCAPE_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_BACK_REFERENCE = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]|\(\?P=")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_UNBOUNDED = re.compile(r"[*+]|\{[0-9]*,[0-9]*\}")
_DEGREE_MAX = 3


@lru_cache(maxsize=1024)
def degree(pattern: str) -> int:
    """Return the exponent of a pattern: matching takes at most the text's length to this power.

    Each unbounded repetition adds one, and so does a search that is not anchored at the start.
    Raises Refusal for a pattern without such a bound.
    """
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise Malformed(f"schema: {pattern[:80]!r} is not a regular expression: {error}") from None
    plain = _ESCAPE_OR_CLASS.sub("x", pattern)
    if _BACK_REFERENCE.search(pattern) or _REPEATED_GROUP.search(plain):
        detail = f"schema: {pattern[:80]!r} must not repeat a group or refer back: it could be slow"
        raise Malformed(detail)
    found = len(_UNBOUNDED.findall(plain)) + (not plain.startswith("^") or "|" in plain)
    if found > _DEGREE_MAX:
        detail = f"schema: {pattern[:80]!r} has too many repetitions: it could take for ever"
        raise Malformed(detail)
    return found


def length_max(pattern: str) -> int:
    """Return the maximum length of a text on which the pattern may be tried."""
    return STEPS_MAX if (power := degree(pattern)) == 0 else int(STEPS_MAX ** (1 / power))


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise Refusal unless this is a JSON Schema that may be applied to every update."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Malformed(f"schema: {error.message}"[:500]) from None
    except (RecursionError, ArithmeticError, ValueError) as error:
        raise Malformed(f"schema: {type(error).__name__}") from None
    for key, value in _members(schema):
        if key in REFERENCES and not (isinstance(value, str) and value.startswith("#")):
            raise Malformed(
                f"schema: {key} must begin with #, within the schema; got {quoted(value)}"
            )
        if key == "$id":
            raise Malformed("schema: $id must be left out of the parts of a schema")
        if key == "pattern" and isinstance(value, str):
            degree(value)
        if key == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                if degree(pattern) > 1:
                    detail = f"schema: {pattern[:80]!r}: begin with ^ and repeat at most once"
                    raise Malformed(detail)
    _check_references(schema)


def _check_references(schema: Mapping[str, Any]) -> None:
    """Raise Refusal for a reference that leads nowhere, or back to the same value."""
    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    done: set[int] = set()

    def follow(part: Any, above: tuple[int, ...]) -> None:
        if not isinstance(part, dict) or id(part) in done:
            return
        for key in REFERENCES:
            if key not in part:
                continue
            try:
                there = resolver.lookup(part[key]).contents
            except (Unresolvable, LookupError, TypeError, ValueError):
                raise Malformed(
                    f"schema: a reference must be to a part of this schema; got {part[key][:80]!r}"
                ) from None
            if id(there) in (*above, id(part)):
                detail = (
                    f"schema: {part[key][:80]!r} must not lead back to itself for the same value"
                )
                raise Malformed(detail)
            follow(there, (*above, id(part)))
        for key in IN_PLACE:
            inside = part.get(key)
            if key == "dependentSchemas" and isinstance(inside, dict):
                inside = list(inside.values())
            for each in inside if isinstance(inside, list) else [inside]:
                follow(each, (*above, id(part)))
        done.add(id(part))

    try:
        for part in (schema, *(value for _, value in _members(schema))):
            for each in part if isinstance(part, list) else [part]:
                follow(each, ())
    except RecursionError:
        raise Malformed(
            "schema: too many references in a chain; refer to the last part directly"
        ) from None


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
    """Return the keywords that `Schema` does not apply: unknown ones and annotations.

    `format` is an annotation: JSON Schema does not say whether it refuses values.
    """
    found: set[str] = set()
    todo: list[Any] = [schema]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            found |= {key for key in each if not key.startswith("x-")}
            todo.extend(DRAFT202012.subresources_of(each))
    return sorted(found - SILENT - (Draft202012Validator.VALIDATORS.keys() - {"format"}))


class _Budget:
    """Counts down the work for one document. Documents are checked in one thread."""

    keywords = 0
    steps = 0

    def begin(self, size: int) -> None:
        """Set the budget of a document of `size` bytes."""
        self.keywords = KEYWORDS_MAX + KEYWORDS_A_BYTE * size
        self.steps = 4 * STEPS_MAX

    def counted(self, keyword: Callable[..., Any]) -> Callable[..., Any]:
        """Return a keyword's function that counts its applications."""

        def applied(*arguments: Any) -> Any:
            self.keywords -= 1
            if self.keywords < 0:
                raise Refusal(
                    "checking the document against its schema takes more steps "
                    "than allowed: make either smaller"
                )
            return keyword(*arguments)

        return applied


_BUDGET = _Budget()


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    _BUDGET.steps -= len(instance) ** degree(pattern)
    if len(instance) > length_max(pattern):
        yield ValidationError(f"a string of {len(instance)} characters is too long for its pattern")
    elif _BUDGET.steps < 0:
        yield ValidationError(
            "the strings of the document are together too long for their patterns"
        )
    elif not re.search(pattern, instance):
        yield ValidationError(f"{instance[:100]!r} does not match {pattern[:100]!r}")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list):
        forms = {json.canonical(member) for member in instance}
        if len(forms) < len(instance):
            yield ValidationError("the array must not have two equal elements")


_KEYWORDS = Draft202012Validator.VALIDATORS | {"pattern": _pattern, "uniqueItems": _unique}
_Validator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {name: _BUDGET.counted(keyword) for name, keyword in _KEYWORDS.items()}
)


class Schema:
    """A schema that has been checked, ready to be applied."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        check_schema(schema)
        self._validator = _Validator(schema, registry=Registry())

    def check(self, state: Any) -> None:
        """Raise Refusal with the place and the reason if the state does not fit."""
        _BUDGET.begin(len(json.dump(state)))
        try:
            error = best_match(self._validator.iter_errors(state))
        except (Unresolvable, RecursionError, ArithmeticError, ValueError) as error:
            raise Refusal(
                "the schema cannot be applied to the document "
                f"({type(error).__name__}): make the schema simpler"
            ) from None
        if error is not None:
            raise Refusal(f"{error.json_path}: {error.message}"[:500])
