r"""Members of a document by path, in SQL and in Python.

SQLite's paths compare names with the escapes of the document, and how many it decodes depends on
its version: for some `{"\u00e9": 1}` has no `$."é"`. So names that JSON may spell in several ways
(odd names) are looked up among the members of their object, which SQLite returns unescaped. That is
slower, so all other names are part of a path.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from docstore.query.condition import Literal, Sql
from docstore.query.moments import Moment, micros_of, sql_of

STATE = "CAST(h.state AS TEXT)"
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\U0010ffff\"\\/<>&']+\Z")
"""Pattern of names that no JSON encoder escapes. Some encoders escape more than they must, for
HTML."""


Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class MemberPath:
    """A member. kind, value: SQL of its type and value, with the same parameters.

    steps: its path. level: 0 in a document, 1 in an element of an array, 2 in an element of one of
    its arrays, and so on.
    """

    kind: str
    value: str
    parameters: tuple[str, ...]
    steps: Steps
    level: int = 0
    is_link: ClassVar[bool] = False
    is_text: ClassVar[bool] = True

    @property
    def element(self) -> "MemberPath":
        return member_at((), self.level + 1)

    def fitted(self, literal: Literal) -> Literal:
        """Return the literal: a member may be of any type."""
        return literal

    def typed(self, literal: Literal) -> Sql:
        """Return the SQL of the value, NULL if it is not of the literal's type."""
        value = sql_of(self.value) if isinstance(literal, Moment) else self.value
        sql = f"CASE WHEN {self.kind} IN ({_json_types(literal)}) THEN {value} END"
        return Sql(sql, self.parameters * 2)

    def value_for(self, scope: Any, literal: Literal) -> Any:
        """Return the value, None if it is not of the literal's type."""
        value = self.found(scope)
        if isinstance(literal, Moment):
            return micros_of(value) if isinstance(value, str) else None
        if isinstance(literal, bool) or isinstance(value, bool):
            return value if isinstance(literal, bool) and isinstance(value, bool) else None
        wanted = str if isinstance(literal, str) else int | float
        return value if isinstance(value, wanted) else None

    def found(self, scope: Any) -> Any:
        """Return the value as it is in JSON, None if it is null or missing."""
        value = scope if self.level else scope["body"]
        for step in self.steps:
            if isinstance(step, int):
                is_there = isinstance(value, list) and step < len(value)
            else:
                is_there = isinstance(value, dict) and step in value
            if not is_there:
                return None
            value = value[step]
        return value


def member_at(steps: Sequence[str | int], level: int = 0) -> MemberPath:
    """Return a member of a document, or of an element of an array."""
    kind, value = (f"e{level}.type", f"e{level}.value") if level else ("'object'", STATE)
    parameters: tuple[str, ...] = ()
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN.match(step):
            path += f'."{step}"'
        else:  # No JSON path can have this name: look it up, and begin a new path in its value.
            inside, parameters = _inside(kind, value, parameters)
            source = f" FROM json_each({inside}, ?) m WHERE m.key = ? LIMIT 1)"
            kind, value = f"(SELECT m.type{source}", f"(SELECT m.value{source}"
            parameters, path = (*parameters, f"${path}", step), ""
    if path:
        inside, parameters = _inside(kind, value, parameters)
        kind, value = f"json_type({inside}, ?)", f"json_extract({inside}, ?)"
        parameters = (*parameters, f"${path}")
    return MemberPath(kind, value, parameters, tuple(steps), level)


def odd_names(steps: Sequence[str | int]) -> int:
    return sum(isinstance(step, str) and not _PLAIN.match(step) for step in steps)


def _inside(kind: str, value: str, parameters: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the SQL of a value if it is an object or an array, else of NULL."""
    if value == STATE:
        return value, parameters
    return f"CASE WHEN {kind} IN ('object', 'array') THEN {value} END", parameters * 2


def _json_types(literal: Literal) -> str:
    if isinstance(literal, bool):
        return "'true', 'false'"
    return "'text'" if isinstance(literal, str | Moment) else "'integer', 'real'"
