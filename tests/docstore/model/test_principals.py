"""A version names the principal that made it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.documents import parts
from docstore.http.representation import document_json
from docstore.model import json
from docstore.model.document import Row
from docstore.model.fences import Fence, fences_of
from docstore.model.identity import OperationIdentity, has_created, unpack_identity
from docstore.model.principals import USERS

MEMBER = "documentAuthPrincipalLink"


def row(identity: OperationIdentity) -> Row:
    return Row(0, 7, 1, "n1", "/a/b", 3, "PUT", 1, False, b"", identity.pack(), b"", b'{"n":1}')


@given(
    st.text(max_size=8),
    st.booleans(),
    st.sampled_from([(), (("lock", 7),)]),
    st.sampled_from([(), (1, 3)]),
    st.sampled_from([(), ("job", 1, 2)]),
)
def test_each_thing_that_a_row_remembers_is_found_beside_all_others(
    principal: str, created: bool, fences: Any, part: Any, writer: Any
) -> None:
    identity = OperationIdentity("n1", 1, 2, 0, "key", 5, writer, created, fences, part, principal)
    made = row(identity)
    back = unpack_identity(made.operation)
    assert back.principal == principal
    assert (back.key, tuple(back.writer)) == ("key", writer)
    assert has_created(made) is created
    assert fences_of(made) == tuple(Fence(*each) for each in fences)
    assert parts.part_of(made) == (part or (0, 1))
    assert (MEMBER in json.load(document_json(made, "k"))) is bool(principal)


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("ann", "ann"),
        ("ann@example.com", "ann@example.com"),
        ("https://login.example ann/x", "https:%2F%2Flogin.example%20ann%2Fx"),
    ],
)
def test_the_principal_of_a_version_is_a_link(name: str, link: str) -> None:
    document = json.load(document_json(row(OperationIdentity("n1", 1, 2, 0, principal=name)), "k"))
    assert document[MEMBER] == f"{USERS}/{link}"
