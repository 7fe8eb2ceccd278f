"""Overwrite the documents that fulfil a condition, and no others (`replaceWhere`)."""

import orjson

from docstore.errors import BadRequest
from docstore.pipeline.options import Options
from docstore.query.condition import Predicate
from docstore.query.parser import parse

REPLACE_WHERE = "replaceWhere"
OPERATIONS = ("upsert", "insert", "ignore", "replace", "append_version")
"""Operations whose rows are whole documents, so that a condition can be checked."""


def predicate_of(options: Options, operation: str) -> Predicate | None:
    """Return the condition that each row must fulfil, None without one. Raises ValueError."""
    text = options.text(REPLACE_WHERE)
    if not text.strip():
        return None
    if operation not in OPERATIONS:
        raise ValueError(
            f"docstore: {REPLACE_WHERE} needs rows that are whole documents:"
            f" operation must be one of {', '.join(OPERATIONS)}; got {operation}"
        )
    try:
        predicate = parse(text, REPLACE_WHERE).predicate
        predicate.holds({"documentSelfLink": "", "body": {}})
    except BadRequest as error:
        raise ValueError(f"docstore: {error}") from None
    except KeyError as error:
        raise ValueError(
            f"docstore: {REPLACE_WHERE}: {error.args[0]} is set by the store, and rows do not have"
            " it: name members, or documentSelfLink"
        ) from None
    return predicate


def why_outside(predicate: Predicate, link: str, body: bytes) -> str:
    """Return the reason why an overwrite must not write a row, "" if it may."""
    row = {"documentSelfLink": link, "body": orjson.loads(body)}
    is_inside = predicate.holds(row) is True
    return "" if is_inside else f"it does not fulfil {REPLACE_WHERE}, and would not be replaced"
