"""Generated conditions, each with its result in plain Python: true, false, or None for unknown."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.docstore.query.documents import (
    NUMBERS,
    TEXTS,
    TIMES,
    Path,
    compares,
    is_alike,
    member,
    micros,
    quoted,
)

Truth = bool | None


class Said(NamedTuple):
    """A condition as text, and its result for a document, or for an element of an array."""

    text: str
    holds: Callable[[Any], Truth]


PATHS: dict[str, Path] = {
    "n": ["n"], "s": ["s"], "a/b": ["a", "b"], "a.b": ["a", "b"], "`é`": ["é"], "tags": ["tags"],
    "tags[1]": ["tags", 1], "missing": ["missing"], "a/`b`": ["a", "b"], "cast[0].name":
    ["cast", 0, "name"], "t": ["t"],
}  # fmt: skip
ELEMENT_PATHS: dict[str, Path] = {
    "": [], "/name": ["name"], "/n": ["n"], "/a.b": ["a", "b"], "/`é`": ["é"], "[0]": [0],
}  # fmt: skip
ARRAYS: dict[str, Path] = {"tags": ["tags"], "cast": ["cast"], "a/cast": ["a", "cast"], "s": ["s"]}
ELEMENT_ARRAYS: dict[str, Path] = {"/roles": ["roles"], "": []}
TESTS: dict[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__,
}  # fmt: skip
SIGNS = {
    "=": "eq",
    "==": "eq",
    "<>": "ne",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}
LITERALS = st.sampled_from([*NUMBERS, *TEXTS, True, False])


def spelt(literal: Any) -> str:
    if isinstance(literal, str):
        return quoted(literal)
    return {True: "true", False: "false"}[literal] if isinstance(literal, bool) else repr(literal)


def starless(text: str) -> str:
    """Return a text for eq and ne, in which its stars are stars."""
    return text.replace("*", "**")


def known(truth: Truth) -> bool:
    return truth is True


def negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def conjunction(parts: Sequence[Truth]) -> Truth:
    return False if False in parts else None if None in parts else True


def disjunction(parts: Sequence[Truth]) -> Truth:
    return negated(conjunction([negated(each) for each in parts]))


def sql_compares(value: Any, operator: str, literal: Any) -> Truth:
    """Compare as SQL does: unknown for a missing value and for one of another type."""
    if not is_alike(value, literal):
        return None
    return (
        not compares(value, "eq", literal)
        if operator == "ne"
        else compares(value, operator, literal)
    )


def among(value: Any, literals: Sequence[Any]) -> Truth:
    alike = [[x for x in literals if is_alike(x, kind)] for kind in ("", 0, True)]
    parts: list[Truth] = []
    for some in alike:
        if some:
            found = [sql_compares(value, "eq", x) for x in some]
            parts.append(True if True in found else found[0])
    return disjunction(parts)


Value = tuple[str, Callable[[Any], Any]]
"""The text of an operand, and its value in a document or an element."""


@st.composite
def values(draw: st.DrawFn, paths: dict[str, Path], variable: str = "") -> Value:
    path = draw(st.sampled_from(sorted(paths)))
    return f"{variable}{path}", lambda scope: member(scope, paths[path])


@st.composite
def texts(draw: st.DrawFn, paths: dict[str, Path], variable: str = "") -> Value:
    text, value = draw(values(paths, variable))
    if draw(st.booleans()):
        return text, value
    return f"tolower({text})", lambda scope: lowered(value(scope))


def lowered(value: Any) -> Any:
    """Return a text with A to Z in lower case, None for anything else."""
    if not isinstance(value, str):
        return None
    return "".join(c.lower() if c.isascii() else c for c in value)


@st.composite
def words(draw: st.DrawFn, value: Value) -> Said:
    (text, read), literal = value, draw(LITERALS)
    if text.startswith("tolower"):
        literal = draw(st.sampled_from(TEXTS))
    operator = draw(st.sampled_from(["eq", "ne", "gt", "ge", "lt", "le"]))
    is_equality = operator in ("eq", "ne") and isinstance(literal, str)
    wanted = spelt(starless(literal) if is_equality else literal)
    return Said(
        f"{text} {operator} {wanted}", lambda scope: compares(read(scope), operator, literal)
    )


@st.composite
def signs(draw: st.DrawFn, value: Value) -> Said:
    (text, read), literal = value, draw(LITERALS)
    if text.startswith("tolower"):
        literal = draw(st.sampled_from(TEXTS))
    sign = draw(st.sampled_from(sorted(SIGNS)))
    return Said(
        f"{text} {sign} {spelt(literal)}",
        lambda scope: sql_compares(read(scope), SIGNS[sign], literal),
    )


@st.composite
def betweens(draw: st.DrawFn, value: Value) -> Said:
    text, read = value
    low, high = (draw(st.sampled_from(TEXTS)) for _ in range(2))
    is_not = draw(st.booleans())

    def holds(scope: Any) -> Truth:
        found = read(scope)
        parts = [sql_compares(found, "ge", low), sql_compares(found, "le", high)]
        return negated(conjunction(parts)) if is_not else conjunction(parts)

    return Said(f"{text}{' not' * is_not} between {spelt(low)} and {spelt(high)}", holds)


@st.composite
def likes(draw: st.DrawFn, value: Value) -> Said:
    (text, read), prefix = value, draw(st.sampled_from(["", "x", "X", "O''N", "é", "*"]))
    is_not = draw(st.booleans())

    def holds(scope: Any) -> Truth:
        found = read(scope)
        if not isinstance(found, str):
            return None
        return found.startswith(prefix.replace("''", "'")) != is_not

    return Said(f"{text}{' not' * is_not} like '{prefix}%'", holds)


@st.composite
def tests(draw: st.DrawFn, value: Value) -> Said:
    (text, read), literal = value, draw(st.sampled_from(TEXTS))
    name = draw(st.sampled_from(sorted(TESTS)))
    wanted = draw(st.sampled_from(["", " eq true", " eq false"]))

    def holds(scope: Any) -> bool:
        found = read(scope)
        return (isinstance(found, str) and TESTS[name](found, literal)) != (wanted == " eq false")

    return Said(f"{name}({text},{spelt(literal)}){wanted}", holds)


@st.composite
def nulls(draw: st.DrawFn, value: Value) -> Said:
    text, read = value
    tests = {"eq null": True, "ne null": False, "is null": True, "is not null": False}
    test = draw(st.sampled_from(sorted(tests)))
    return Said(f"{text} {test}", lambda scope: (read(scope) is None) == tests[test])


@st.composite
def lists(draw: st.DrawFn, value: Value) -> Said:
    text, read = value
    literals = st.sampled_from(TEXTS) if text.startswith("tolower") else LITERALS
    chosen = draw(st.lists(literals, min_size=1, max_size=4))
    said = f"({', '.join(map(spelt, chosen))})"
    if draw(st.booleans()):
        return Said(f"{text} not in {said}", lambda scope: negated(among(read(scope), chosen)))
    return Said(f"{text} in {said}", lambda scope: known(among(read(scope), chosen)))


@st.composite
def lengths(draw: st.DrawFn, value: Value) -> Said:
    (text, read), literal = value, draw(st.sampled_from([0, 1, 2, 1.5, 40]))
    operator = draw(st.sampled_from(["eq", "ne", "gt", "ge", "lt", "le"]))

    def holds(scope: Any) -> bool:
        found = read(scope)
        return compares(len(found) if isinstance(found, str) else None, operator, literal)

    return Said(f"length({text}) {operator} {literal}", holds)


@st.composite
def times(draw: st.DrawFn, value: Value) -> Said:
    (text, read), literal = value, draw(st.sampled_from(TIMES))
    operator = draw(st.sampled_from(["eq", "ne", "gt", "ge", "lt", "le", *sorted(SIGNS)]))
    at = micros(literal)

    def holds(scope: Any) -> Truth:
        found = read(scope)
        instant = micros(found) if isinstance(found, str) else None
        if operator in SIGNS:
            return sql_compares(instant, SIGNS[operator], at)
        return compares(instant, operator, at)

    return Said(f"{text} {operator} {literal}", holds)


@st.composite
def wildcards(draw: st.DrawFn, value: Value) -> Said:
    text, read = value
    drawn = draw(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=4))
    # Two stars that are meant as one must not follow one that matches any characters.
    drawn = ["q" if each.startswith("*") else each for each in drawn]
    pieces = [drawn[0], *(each or "q" for each in drawn[1:-1]), drawn[-1]]
    operator = draw(st.sampled_from(["eq", "ne"]))
    said = "*".join(map(starless, pieces))
    pattern = "*".join("".join(f"[{c}]" if c in "*?[" else c for c in each) for each in pieces)

    def holds(scope: Any) -> bool:
        found = read(scope)
        return (isinstance(found, str) and fnmatchcase(found, pattern)) == (operator == "eq")

    return Said(f"{text} {operator} {quoted(said)}", holds)


def clauses(paths: dict[str, Path], variable: str = "") -> st.SearchStrategy[Said]:
    plain, text = values(paths, variable), texts(paths, variable)
    of_texts = [words, signs, lists, tests, likes, betweens, wildcards]
    return st.one_of(*(text.flatmap(each) for each in of_texts),
                     *(plain.flatmap(each) for each in (nulls, lengths, times)))  # fmt: skip


@st.composite
def containing(draw: st.DrawFn, arrays: dict[str, Path], variable: str = "") -> Said:
    (text, read), literal = draw(values(arrays, variable)), draw(LITERALS)
    is_not = draw(st.booleans())

    def holds(scope: Any) -> Truth:
        found = read(scope)
        if not isinstance(found, list):
            return None
        return any(compares(x, "eq", literal) for x in found) != is_not

    return Said(f"{text}{' not' * is_not} contains {spelt(literal)}", holds)


@st.composite
def elements(draw: st.DrawFn, arrays: dict[str, Path], level: int = 1, outer: str = "") -> Said:
    text, read = draw(values(arrays, outer))
    word, variable = (
        draw(st.sampled_from(["any", "all"])),
        draw(st.sampled_from(["x", "any", "`é`"])),
    )
    inside = clauses(ELEMENT_PATHS, variable)
    if level < 3:
        inside |= elements(ELEMENT_ARRAYS, level + 1, variable)
    inner = draw(joined(inside | containing(ELEMENT_ARRAYS, variable), inside))

    def holds(scope: Any) -> bool:
        found = read(scope)
        quantified = any if word == "any" else all
        return isinstance(found, list) and quantified(known(inner.holds(x)) for x in found)

    return Said(f"{text}/{word}({variable}: {inner.text})", holds)


def joined(
    inner: st.SearchStrategy[Said], tight: st.SearchStrategy[Said]
) -> st.SearchStrategy[Said]:
    """Return conditions, and combinations of them. tight: conditions without `and`, `or`."""

    def both(pair: tuple[Said, Said]) -> Said:
        one, other = pair
        # Without brackets around it, the condition after `and` must bind as tightly.
        return Said(f"({one.text}) and {other.text}",
                    lambda scope: conjunction([one.holds(scope), other.holds(scope)]))  # fmt: skip

    def either(pair: tuple[Said, Said]) -> Said:
        one, other = pair
        return Said(f"({one.text} or ({other.text}))",
                    lambda scope: disjunction([one.holds(scope), other.holds(scope)]))  # fmt: skip

    def neither(one: Said) -> Said:
        return Said(f"not ({one.text})", lambda scope: negated(one.holds(scope)))

    pairs = st.tuples(inner, inner)
    return st.one_of(inner, st.tuples(inner, tight).map(both), pairs.map(either),
                     inner.map(neither))  # fmt: skip


SIMPLE = st.one_of(clauses(PATHS), containing(ARRAYS), elements(ARRAYS))
CONDITIONS = st.recursive(SIMPLE, lambda inner: joined(inner, SIMPLE), max_leaves=6)
