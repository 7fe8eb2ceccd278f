"""Declared indexes: their language, refusals, and the searches that they answer."""

import pytest

from docstore.errors import BadRequest
from docstore.model.service import Refusal
from docstore.query.indexes import declared_indexes, parse_index, spelt
from docstore.query.needs import needs_of
from docstore.query.ordering import parse_order
from docstore.query.parser import parse
from docstore.query.plans import plans_of, wanted
from docstore.query.ranges import NUMBER_RANK, TEXT_RANK, Range, common, of_prefix, united
from docstore.service import Service
from docstore.services.authored import declaration_of
from docstore.services.declared import checked_options, options_of


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("status", ["status"]),
        ("$.a.b desc, $.c asc", ["a/b desc", "c"]),
        ("tags[*]", ["tags[*]"]),
        ("cast[*]/name desc, year", ["cast[*]/name desc", "year"]),
        ("a[0]/b", ["a[0]/b"]),
        ("`we,ird`,`not`, `slot`", ["`we,ird`", "`not`", "`slot`"]),
        ("`a[*]b`[*].c", ["`a[*]b`[*]/c"]),
        ("documentUpdateTimeMicros desc", ["documentUpdateTimeMicros desc"]),
    ],
)
def test_the_language_of_indexes(text: str, members: list[str]) -> None:
    index = parse_index(text)
    assert [spelt(each.key, descending=each.descending) for each in index.keys] == members
    assert parse_index(", ".join(members)).keys == index.keys


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the end at 0, where a name is expected"),
        ("a,", "the end at 0, where a name is expected"),
        ("a b", "'b' at 2"),
        ("a,b,c,d,e", "at most 4 members"),
        ("a,b,a", "must name a member once"),
        ("documentSelfLink", "documentSelfLink cannot be indexed"),
        ("deleted", "deleted cannot be indexed"),
        ("tags[*],b[*]", r"at most one \[\*\]"),
        ("slot[*]", "slot is no array"),
        ("body", "body is the whole document"),
        ("a[*]x", "where asc, desc or the end is expected|the element"),
    ],
)
def test_an_index_that_cannot_be_made_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        parse_index(text)
    declaration = {"path": "/x", "indexes": [text]}
    with pytest.raises(Refusal, match="indexes"):
        checked_options(declaration)
    # An earlier version may have stored it: its factory stays.
    assert declared_indexes(options_of(declaration).indexes) == []


def test_a_factory_has_at_most_sixteen_indexes() -> None:
    names = [f"m{number}" for number in range(17)]
    with pytest.raises(Refusal, match="at most 16 members; got 17"):
        checked_options({"path": "/x", "indexes": names})
    assert len(declared_indexes(names)) == 16


def test_a_class_declares_its_indexes() -> None:
    class Indexed(Service):
        path = "/x"
        indexes = ("status", "total desc")

    assert options_of(declaration_of(Indexed())).indexes == ("status", "total desc")


def plan(index: str, filter_: str = "", order: str = "") -> tuple[str, int] | None:
    """Return how an index answers a search, and by how many boxes; None if it does not."""
    needs = needs_of(parse(filter_, "$filter").predicate) if filter_ else {}
    for found in plans_of(parse_index(index), needs, parse_order(order)):
        turned = "back" if found.is_reversed else "walk"
        return (turned if found.walks else "gather"), len(found.boxes)
    return None


@pytest.mark.parametrize(
    ("index", "filter_", "order", "how"),
    [
        ("a", "a eq 1", "", ("walk", 1)),
        ("a", "a in (1, 2, 'x')", "", ("walk", 3)),
        ("a", "a eq null", "", ("walk", 1)),
        ("a", "a gt 1", "", ("gather", 1)),
        ("a", "a ge 1 and a lt 5", "", ("gather", 1)),
        ("a", "startswith(a,'x')", "", ("gather", 1)),
        ("a", "a eq 'x*'", "", ("gather", 1)),
        ("a", "a eq 1 or a gt 7", "", ("gather", 2)),
        ("a", "a eq 1 and b eq 2", "", ("walk", 1)),
        ("a", "a eq 1 or b eq 2", "", None),
        ("a", "not (a eq 1)", "", None),
        ("a", "a ne 1", "", None),
        ("a", "contains(a,'x')", "", None),
        ("a", "tolower(a) eq 'x'", "", None),
        ("a", "", "a", ("walk", 1)),
        ("a", "", "a desc", ("back", 1)),
        ("a", "a gt 1", "a", ("walk", 1)),
        ("a, b", "a eq 1", "b", ("walk", 1)),
        ("a, b", "a eq 1", "b desc", ("back", 1)),
        ("a, b", "a eq 1 and b gt 2", "", ("gather", 1)),
        ("a, b", "", "a, b desc", None),
        ("a, b desc", "", "a desc, b", ("back", 1)),
        ("a, b", "", "a", None),
        ("a, b", "b eq 1", "", None),
        ("tags[*]", "tags/any(t: t eq 'x')", "", ("walk", 1)),
        ("tags[*]", "tags/all(t: t eq 'x')", "", None),
        ("cast[*]/name", "cast/any(c: c/name eq 'x' and c/n gt 1)", "", ("walk", 1)),
        ("year, tags[*]", "year eq 1", "", None),  # Documents without an element have no entry.
        ("year, tags[*]", "year eq 1 and tags/any(t: t gt 1)", "", ("gather", 1)),
        ("tags[*], year", "tags/any(t: t eq 1)", "year", ("walk", 1)),
    ],
)
def test_an_index_answers_searches_on_its_members(
    index: str, filter_: str, order: str, how: tuple[str, int] | None
) -> None:
    assert plan(index, filter_, order) == how


@pytest.mark.parametrize(
    ("filter_", "order", "index"),
    [
        ("a eq 1", "", "a"),
        ("a eq 1 and b gt 2", "c desc", "a, c desc"),
        ("b gt 2", "b", "b"),
        ("cast/any(c: c/name eq 'x')", "", "cast[*]/name"),
        ("contains(a,'x')", "", ""),
        ("", "", ""),
    ],
)
def test_the_index_that_would_help_is_named(filter_: str, order: str, index: str) -> None:
    needs = needs_of(parse(filter_, "$filter").predicate) if filter_ else {}
    assert wanted(needs, parse_order(order)) == index
    if index:
        assert plan(index, filter_, order) is not None


def test_ranges_are_joined_and_cut() -> None:
    low, high, point = Range(NUMBER_RANK, None, 3), Range(NUMBER_RANK, 2), Range(NUMBER_RANK, 7, 7)
    assert united([point], [low]) == (low, point)
    assert united([low, high]) == (Range(NUMBER_RANK),)
    assert common((low, point), (high,)) == (Range(NUMBER_RANK, 2, 3), point)
    assert common((low,), (point,)) == ()
    assert of_prefix("a\U0010ffff") == (Range(TEXT_RANK, "a\U0010ffff", "b"),)
    assert of_prefix("\U0010ffff") == (Range(TEXT_RANK, "\U0010ffff", None),)
    many = [Range(NUMBER_RANK, number, number) for number in range(0, 400, 2)]
    assert united(many) == (Range(NUMBER_RANK, 0, 398),)


def test_two_elements_of_an_array_may_fulfil_two_conditions() -> None:
    each = parse("tags/any(t: t gt 1) and tags/any(t: t lt 5)", "$filter").predicate
    assert needs_of(each) == {("tags", None): (Range(NUMBER_RANK, 1),)}
    one = parse("a gt 1 and a lt 5", "$filter").predicate
    assert needs_of(one) == {("a",): (Range(NUMBER_RANK, 1, 5),)}
