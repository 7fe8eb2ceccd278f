"""Opaque tokens are verified by their digest, and JSON Web Tokens by a key of the file."""

import pytest

from docstore.access import authenticator as module
from docstore.access.authenticator import Authenticator
from docstore.access.grants import AccessLevel
from docstore.access.rules import rules_of
from docstore.access.web_tokens import VerificationKey
from tests.docstore.access.tokens import (
    EC,
    FILE,
    NOW,
    bad_tokens,
    digest,
    web_token,
)

READ, WRITE = AccessLevel.READ, AccessLevel.WRITE


@pytest.fixture
def authenticator() -> Authenticator:
    return Authenticator(rules_of(FILE))


def test_a_token_is_its_users(authenticator: Authenticator) -> None:
    for token in ("ann-token", "ann-next-token"):
        ann = authenticator.principal(f"Bearer {token}", NOW)
        assert ann is not None
        assert ann.name == "ann"
        assert ann.grants.allow(WRITE, "/films/a")
    ungranted = authenticator.principal("bearer nobody-token", NOW)
    assert ungranted is not None
    assert not ungranted.grants.allow(READ, "/")


@pytest.mark.parametrize("key", ["ed", "ec"])
def test_a_signed_token_gives_the_roles_that_its_key_may_give(
    authenticator: Authenticator, key: str
) -> None:
    asked = {"roles": ["reader", "writer", "unknown"]}
    token = web_token(**asked) if key == "ed" else web_token(EC, **asked)
    found = authenticator.principal(f"Bearer {token}", NOW)
    assert found is not None
    assert found.name == "https://login.example ann@login.example"
    assert found.grants.allow(READ, "/films")
    assert found.grants.allow(WRITE, "/films") is (key == "ec")


def test_a_signed_token_without_roles_may_do_nothing(authenticator: Authenticator) -> None:
    found = authenticator.principal(f"Bearer {web_token(roles=None)}", NOW)
    assert found is not None
    assert not found.grants.levels


@pytest.mark.parametrize(
    "others",
    [
        {"aud": ["x", "films"]},
        {"exp": NOW - 29},
        {"exp": NOW + 3629},
        {"nbf": NOW + 29},
        {"nbf": NOW - 1, "iat": NOW - 1, "jti": "1"},
    ],
)
def test_what_is_within_its_bounds_holds(
    authenticator: Authenticator, others: dict[str, object]
) -> None:
    assert authenticator.principal(f"Bearer {web_token(**others)}", NOW) is not None


@pytest.mark.parametrize("why", bad_tokens())
def test_a_bad_token_proves_nothing(authenticator: Authenticator, why: str) -> None:
    assert authenticator.principal(f"Bearer {bad_tokens()[why]}", NOW) is None
    assert not authenticator._known, "an invalid token must not be cached"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "ann-token", "Basic ann-token", "Bearer  ann-token", "Bearer ann-token x"],
)
def test_another_header_proves_nothing(authenticator: Authenticator, header: str) -> None:
    assert authenticator.principal(header, NOW) is None


def test_a_signed_token_ends_though_it_is_remembered(authenticator: Authenticator) -> None:
    header = f"Bearer {web_token(exp=NOW + 60)}"
    assert authenticator.principal(header, NOW) is not None
    assert authenticator.principal(header, NOW + 89) is not None
    assert authenticator.principal(header, NOW + 90) is None


def test_what_is_remembered_is_bounded(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KNOWN_MAX", 3)
    for number in range(10):
        assert authenticator.principal(f"Bearer {web_token(jti=number)}", NOW) is not None
        assert len(authenticator._known) <= 3


def test_other_rules_hold_at_once(authenticator: Authenticator) -> None:
    assert authenticator.principal("Bearer ann-token", NOW) is not None
    authenticator.use(rules_of(FILE.replace(digest("ann-token"), digest("new-token"))))
    assert authenticator.principal("Bearer ann-token", NOW) is None
    assert authenticator.principal("Bearer new-token", NOW) is not None


@pytest.mark.parametrize("why", bad_tokens())
def test_every_fault_is_the_same_work(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Each token costs one signature check, so the time does not show which check failed."""
    looked_at = []
    has_signed = VerificationKey.has_signed

    def counted(key: VerificationKey, signature: bytes, signed: bytes) -> bool:
        looked_at.append(key)
        return has_signed(key, signature, signed)

    monkeypatch.setattr(VerificationKey, "has_signed", counted)
    authenticator.principal(f"Bearer {bad_tokens()[why]}", NOW)
    assert len(looked_at) == 1
