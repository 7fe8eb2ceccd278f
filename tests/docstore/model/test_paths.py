"""One canonical form of a path: identity has no spellings."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import BadRequest
from docstore.model.paths import (
    ID_BYTES_MAX,
    KEY_IN_LINK,
    PATH_BYTES_MAX,
    SEGMENTS_MAX,
    canonical,
    canonical_link,
    check_factory_path,
    encoded,
    has_keys,
    id_of,
    partition_key,
)
from docstore.model.slots import slot_of
from docstore.services.registry import declaration_id, declared_path

REFUSED = [
    "", "a", "/", "//", "/a/", "/a//b", "/a/./b", "/a/../b", "/a/..", "/%2e%2e/b", "/a/%2E",
    "/a%2fb", "/a%2Fb", "/a%5cb", "/a\\b", "/a%00", "/a%0d%0ab", "/a%7f", "/a%c2%85", "/a%zz",
    "/a%", "/a%f", "/a%ff", "/a%c0%af", "/a%ed%a0%80", "/ä", "/a#b", "/a%CC%88",
    "/" + "a" * PATH_BYTES_MAX, "/" + "%61" * (PATH_BYTES_MAX + 1), "/a" * (SEGMENTS_MAX + 1),
    "/" + "%C3%A4" * (PATH_BYTES_MAX // 2),
]  # fmt: skip


@pytest.mark.parametrize("raw", REFUSED)
def test_bad_paths_are_refused(raw: str) -> None:
    with pytest.raises(BadRequest):
        canonical(raw)


@pytest.mark.parametrize(
    ("raw", "link"),
    [
        ("/a/b-1", "/a/b-1"),
        ("/a/.b", "/a/.b"),
        ("/a/b.c", "/a/b.c"),
        ("/a/%62", "/a/b"),
        ("/a/x%20y", "/a/x y"),
        ("/a/%C3%A4", "/a/ä"),
        ("/a/100%25", "/a/100%"),
        ("/a/%252f", "/a/%2f"),
        ("/a" * SEGMENTS_MAX, "/a" * SEGMENTS_MAX),
    ],
)
def test_paths_are_decoded_once(raw: str, link: str) -> None:
    assert canonical(raw) == link


SEGMENT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1, max_size=8
).map(lambda text: unicodedata.normalize("NFC", text))


@given(st.lists(SEGMENT.filter(lambda text: text not in (".", "..")), min_size=1, max_size=8))
def test_encoding_is_undone_by_the_canonical_form(segments: list[str]) -> None:
    link = "/" + "/".join(segments)
    assert canonical(encoded(link)) == link == canonical_link(link)
    assert encoded(link).isascii()


@given(st.text(max_size=30))
def test_an_accepted_path_is_canonical(raw: str) -> None:
    try:
        link = canonical("/" + raw)
    except BadRequest:
        return
    assert canonical_link(link) == link
    assert canonical(encoded(link)) == link


@pytest.mark.parametrize("link", ["", "x", "http://a/b", "../x", "/a/../x", "/a/\ud800", "/a//b"])
def test_links_in_bodies_obey_the_same_rules(link: str) -> None:
    with pytest.raises(BadRequest):
        canonical_link(link)


@pytest.mark.parametrize(
    "path", ["/core", "/core/x", "/mgmt/x", "/health", "/metrics", "/a/stats", "/versions", "/a:b"]
)
def test_reserved_paths_are_not_for_users(path: str) -> None:
    with pytest.raises(BadRequest):
        check_factory_path(path)


def test_paths_that_resemble_reserved_ones_are_free() -> None:
    for path in ("/cores", "/my/core", "/statistics"):
        check_factory_path(path)


TEXTS = st.lists(st.none() | st.text(max_size=8), min_size=1, max_size=3)
"""Short texts, so that two of them are often nearly the same."""


@given(TEXTS | st.lists(st.text(min_size=150, max_size=400), min_size=1, max_size=3))
def test_an_id_made_of_any_texts_is_a_segment(parts: list[str | None]) -> None:
    made = id_of(parts)
    assert canonical_link(f"/x/{made}") == f"/x/{made}" == canonical(encoded(f"/x/{made}"))
    assert len(made.encode()) <= ID_BYTES_MAX


@given(TEXTS, TEXTS)
def test_different_texts_have_different_ids(
    parts: list[str | None], more: list[str | None]
) -> None:
    assert (id_of(parts) == id_of(more)) == (parts == more)


ALIKE = [
    ["C"], ["C#"], ["C++"], ["c"], ["中文"], ["日本"], ["-"], ["."], [".."], ["%2E"], ["/"],
    ["%2F"], [" "], [""], [None], ["None"], ["null"], ["%null"], ["unnamed"], ["stats"],
    ["%73tats"], ["é"], ["e\u0301"], ["a", "b-c"], ["a-b", "c"], ["a~b", "c"], ["a", "b~c"],
    ["a~b~c"], ["a", "", "b"], ["a", "b"], ["a", None, "b"], ["x" * 600], ["x" * 601], ["x" * 500],
]  # fmt: skip


def test_ids_never_fall_together() -> None:
    assert len({id_of(parts) for parts in ALIKE}) == len(ALIKE)


def test_an_id_keeps_characters_that_a_path_can_hold() -> None:
    assert id_of(["Amélie: 中文 #1", "2001"]) == "Amélie: 中文 #1~2001"
    assert id_of(["Face/Off"]) == "Face%2FOff"


KEYED = {
    "/orders:/42": "42",
    "/orders:/42~1": "42",
    "/order-lines:/42~1~2": "42",
    "/shop/orders:/a b~": "a b",
    "/shop/orders:/~1": "",
    "/core:/42~1": "42",
    "/orders:/42\u20281~2": "42\u20281",
}
"""Links of users' factories with keys, and the keys."""
OF_SESSIONS = {
    "/core/locks/billing": "billing",
    "/core/leases/billing~3f2a": "billing",
    "/core/elections/nightly run~1": "nightly run",
    "/core/leases/3f2a": "3f2a",
}
LOOSE = [
    "/orders/42~1", "/orders/42:~1", "/orders:", "/orders:/a/b~1", "/a:b/c~1",
    "/core/streams/a:/0~1", "/mgmt/a:/0", "/core/factories/orders:", "/orders:/42/versions",
    "/core/leases", "/core/locks/a/b~1", "/core/roles/a~1",
]  # fmt: skip
"""Links whose slots are their own, as all links before there were keys."""


def test_a_document_lies_by_its_key_where_its_factory_has_keys() -> None:
    assert {link: partition_key(link) for link in KEYED} == KEYED
    assert [partition_key(link) for link in LOOSE] == LOOSE
    for link, key in KEYED.items():
        assert slot_of(link, 65_536) == slot_of(f"/x:/{key}", 65_536)
        assert has_keys(link.rpartition("/")[0])


def test_a_lease_can_lie_in_the_slot_of_a_lock() -> None:
    for link, key in OF_SESSIONS.items():
        assert partition_key(link) == key
        assert slot_of(link, 65_536) == slot_of(f"/x:/{key}", 65_536)


def test_the_data_source_finds_keys_where_nodes_do() -> None:
    pattern = re.compile(KEY_IN_LINK.replace(r"\z", r"\Z"))  # As Java spells it.
    assert {link: found[1] for link in KEYED if (found := pattern.match(link))} == KEYED
    assert not [link for link in LOOSE if pattern.match(link)]


@given(st.lists(st.sampled_from(["/", ":", "~", "a", "core"]), min_size=1, max_size=9))
def test_both_ways_to_a_key_are_one(parts: list[str]) -> None:
    link = "/" + "".join(parts)
    found = re.match(KEY_IN_LINK.replace(r"\z", r"\Z"), link)
    assert partition_key(link) == (found[1] if found else link)


def test_a_colon_ends_the_path_of_a_factory_or_is_not_in_it() -> None:
    for path in ("/orders:", "/shop/orders:"):
        check_factory_path(path)
        assert has_keys(path)
        assert declared_path(declaration_id(path)) == path
    assert declared_path(declaration_id("/shop/orders")) == "/shop/orders"
    for path in ("/:", "/a/:", "/a:b", "/a:/b", "/a:/b:", "/a::"):
        with pytest.raises(BadRequest, match="colon"):
            check_factory_path(path)
