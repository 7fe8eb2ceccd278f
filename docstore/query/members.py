r"""Members of a document by path, in SQL.

SQLite's paths compare names with the escapes of the document, and how many it decodes depends on
its version: for some `{"\u00e9": 1}` has no `$."é"`. So names that JSON may spell in several ways
(odd names) are looked up among the members of their object, which SQLite returns unescaped. That is
slower, so all other names are part of a path.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from docstore.query.condition import Condition, Literal

STATE = "CAST(h.state AS TEXT)"
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\U0010ffff\"\\/<>&']+\Z")
"""Pattern of names that no JSON encoder escapes. Some encoders escape more than they must, for
HTML."""


@dataclass(frozen=True, slots=True)
class MemberPath:
    """A member. kind, value: SQL of its type and value, with the same parameters."""

    kind: str
    value: str
    parameters: tuple[str, ...]
    is_link: ClassVar[bool] = False
    is_text: ClassVar[bool] = True

    def fitted(self, literal: Literal) -> Literal:
        """Return the literal: a member may be of any type."""
        return literal

    def typed(self, literal: Literal) -> tuple[str, tuple[Any, ...]]:
        """Return the SQL of the value, NULL if it is not of the literal's type."""
        sql = f"CASE WHEN {self.kind} IN ({_json_types(literal)}) THEN {self.value} END"
        return sql, self.parameters * 2

    def is_null(self, *, negated: bool) -> Condition:
        """Return the condition that a member is null or missing, which are equal as in Spark."""
        sql = f"(coalesce({self.kind}, 'null') {'<>' if negated else '='} 'null')"
        return Condition(sql, self.parameters)

    def contains(self, literal: Literal, sign: str = "=") -> Condition:
        """Return the condition that an array has an element that fulfils a comparison."""
        element = f"EXISTS (SELECT 1 FROM json_each({self.value}) e"  # noqa: S608 - our own words
        element += f" WHERE e.type IN ({_json_types(literal)}) AND e.value {sign} ?)"
        sql = f"(CASE WHEN {self.kind} = 'array' THEN {element} END)"
        return Condition(sql, (*self.parameters * 2, literal))


def member_at(steps: Sequence[str | int]) -> MemberPath:
    inside, path = STATE, "$"
    parameters: tuple[str, ...] = ()
    found: MemberPath | None = None
    for step in steps:
        if found is not None:  # A look-up yields the object in which the next path begins.
            inside = f"CASE WHEN {found.kind} IN ('object', 'array') THEN {found.value} END"
            parameters, path, found = found.parameters * 2, "$", None
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN.match(step):
            path += f'."{step}"'
        else:
            found = _among(inside, (*parameters, path, step))
    if found is not None:
        return found
    return MemberPath(f"json_type({inside}, ?)", f"json_extract({inside}, ?)", (*parameters, path))


def odd_names(steps: Sequence[str | int]) -> int:
    return sum(isinstance(step, str) and not _PLAIN.match(step) for step in steps)


def _among(inside: str, parameters: tuple[str, ...]) -> MemberPath:
    chosen = "(SELECT m.{} FROM json_each({}, ?) m WHERE m.key = ? LIMIT 1)"
    return MemberPath(chosen.format("type", inside), chosen.format("value", inside), parameters)


def _json_types(literal: Literal) -> str:
    if isinstance(literal, bool):
        return "'true', 'false'"
    return "'text'" if isinstance(literal, str) else "'integer', 'real'"
