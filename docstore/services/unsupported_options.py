"""Warnings about members of a declaration that the store does not implement yet.

Such members are accepted, since they concern space or time only, and a declaration for a later
version may have them already. The warnings are not part of the stored declaration: they are
computed each time that it is shown.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from docstore.model.document import EXPIRY
from docstore.model.service import LEVEL_3, State, level_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
WARNINGS = "warnings"
"""The member with the warnings; ignored when a client sends it back."""


def unkept(declaration: State) -> list[dict[str, str]]:
    """Return {"member", "detail"} for whatever is accepted and changes nothing."""
    return [{"member": member, "detail": detail} for member, detail in _found(declaration)]


def _found(declaration: State) -> Iterator[tuple[str, str]]:
    is_weak = level_of(declaration.get("options", LEVEL_3)) < 3
    if declaration.get("indexes") and is_weak:
        yield "indexes", "documents are indexed at level 3 only, where they can be queried"
    if declaration.get("retention") and is_weak:
        yield "retention", "versions are counted at level 3 only: history_retention_s drops them"
    for name in declaration:
        if name.startswith("document") and name != EXPIRY:
            yield name, "a declaration has no member of that name"
    yield from (("schema", detail) for detail in _of_schema(declaration.get("schema")))


def _of_schema(schema: Mapping[str, Any] | None) -> Iterator[str]:
    if schema is None:
        return
    from docstore.services.schemas import unapplied  # noqa: PLC0415 - It loads `jsonschema`.

    said = schema.get("$schema", DIALECT)
    if str(said).rstrip("#") != DIALECT:
        yield "it is read as JSON Schema 2020-12, whatever it says of itself"
    for keyword in unapplied(schema):
        yield f"the keyword {keyword[:80]!r} refuses nothing"
