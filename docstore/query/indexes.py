"""Declared indexes: their language, and the tables that hold their entries. Pure.

    status          address/city          year desc, title          tags[*]          cast[*]/name

An index has one to four members, each a column that the store sets or a member of the document, in
the language of `orderBy`; `$.` before a name means nothing. `[*]` stands for the elements of an
array: the index then has an entry for each of them.

An entry is (rank, value, rank, value, ..., link, slot), with the ranks and values of an order
(`ordering.py`). SQLite compares them as it compares those of a search, so an index has the order of
a search, by construction.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from docstore.errors import BadRequest
from docstore.model.settings import quoted
from docstore.query.columns import COLUMNS, FLAG, Column
from docstore.query.members import MemberPath
from docstore.query.needs import key_of
from docstore.query.operands import RESERVED, Variable, operand_of
from docstore.query.ordering import KEYS_MAX, SortKey, is_descending, sort_key
from docstore.query.ranges import EACH, Key
from docstore.query.tokens import Tokens

INDEXES_MAX = 16
"""Maximum indexes of a factory: each costs every write of a document."""
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*\Z)")
"""A comma outside of backquotes."""
_EACH = re.compile(r"((?:`[^`]*`|[^`])*?)\[\*\](.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Index:
    """A declared index. array: the array whose elements are indexed, None for none."""

    name: str
    keys: tuple[SortKey, ...]
    array: MemberPath | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns of ranks and values."""
        return tuple(f"{letter}{number}" for number in range(len(self.keys)) for letter in "rv")

    @property
    def table(self) -> str:
        """Return the columns and the key of the table of entries, for CREATE TABLE."""
        signs = [" DESC" if key.descending else "" for key in self.keys for _ in "rv"]
        key = [f"{name}{sign}" for name, sign in zip(self.columns, signs, strict=True)]
        return (
            f"({', '.join(self.columns)}, link TEXT, slot INTEGER,"
            f" PRIMARY KEY ({', '.join(key)}, link, slot)) WITHOUT ROWID"
        )

    @property
    def entries(self) -> tuple[str, tuple[str, ...]]:
        """Return the columns of the entries of a row `h`, in SQL, with parameters."""
        pairs = [f"{key.rank}, {key.value}" for key in self.keys]
        parameters = [
            each for key in self.keys for each in (*key.rank_parameters, *key.value_parameters)
        ]
        return f"{', '.join(pairs)}, h.link, h.slot", tuple(parameters)

    @property
    def elements(self) -> tuple[str, tuple[str, ...]]:
        """Return the join with the elements of the array, in SQL, with parameters."""
        if self.array is None:
            return "", ()
        array = f"CASE WHEN {self.array.kind} = 'array' THEN {self.array.value} END"
        return f" CROSS JOIN json_each({array}) e1", self.array.parameters * 2


@lru_cache(maxsize=1_024)  # Each search asks for the indexes of its factory.
def parse_index(text: str) -> Index:
    """Parse an index. Raises BadRequest with the position."""
    parts = _COMMA.split(text)
    if len(parts) > KEYS_MAX:
        raise BadRequest(f"an index must have at most {KEYS_MAX} members; got {quoted(text)}")
    array: MemberPath | None = None
    keys = []
    for part in parts:
        key, its_array = _member(part.strip().removeprefix("$."))
        if its_array is not None and array is not None:
            raise BadRequest(f"an index must have at most one [*]; got {quoted(text)}")
        array = its_array or array
        keys.append(key)
    if len({each.key for each in keys}) < len(keys):
        raise BadRequest(f"an index must name a member once; got {quoted(text)}")
    return Index(text.strip(), tuple(keys), array)


def _member(text: str) -> tuple[SortKey, MemberPath | None]:
    each = _EACH.fullmatch(text)
    tokens = Tokens(each[1] if each else text, "an index")
    operand = operand_of(tokens, "/.")
    if each is None:
        if isinstance(operand, Column) and (operand.is_link or operand.kind == FLAG):
            raise BadRequest(f"{operand.name} cannot be indexed: leave it out")
        key = sort_key(operand, key_of(operand), descending=is_descending(tokens))
        tokens.expect_end("asc, desc")
        return key, None
    tokens.expect_end("[*]")
    if isinstance(operand, Column):
        raise BadRequest(f"{operand.name} is no array: leave out [*]")
    rest = Tokens(f"e{each[2]}", "an index")
    element = operand_of(rest, "/.", Variable("e", 1))
    inside = key_of(element, (*operand.steps, EACH))
    key = sort_key(element, inside, descending=is_descending(rest))
    rest.expect_end("asc, desc")
    return key, operand


def spelt(key: Key, *, descending: bool = False) -> str:
    """Return a member in the language of indexes."""
    if key and key[0] is EACH:
        text = str(key[1])
    else:
        text = "".join(_step(step) for step in key).removeprefix("/")
        is_odd = isinstance(key[0], str) and (key[0] in COLUMNS or key[0].lower() in RESERVED)
        if is_odd and not text.startswith("`"):
            text = f"`{key[0]}`{text[len(str(key[0])) :]}"
    return f"{text} desc" if descending else text


def _step(step: str | int | None) -> str:
    if step is EACH:
        return "[*]"
    if isinstance(step, int):
        return f"[{step}]"
    return f"/{step}" if _NAME.match(step) else f"/`{step}`"


def declared_indexes(texts: Sequence[str]) -> list[Index]:
    """Return the indexes that can be made, without those of a later version of docstore."""
    found = []
    for text in dict.fromkeys(texts):
        try:
            found.append(parse_index(text))
        except BadRequest:
            continue
    return found[:INDEXES_MAX]
