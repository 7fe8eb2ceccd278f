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


def test_a_token_identifies_its_user(authenticator: Authenticator) -> None:
    for token in ("ann-token", "ann-next-token"):
        ann = authenticator.principal(f"Bearer {token}", NOW)
        assert ann is not None
        assert ann.name == "ann"
        assert ann.grants.allow(WRITE, "/films/a")
    ungranted = authenticator.principal("bearer nobody-token", NOW)
    assert ungranted is not None
    assert not ungranted.grants.allow(READ, "/")


@pytest.mark.parametrize("key", ["ed", "ec"])
def test_a_signed_token_grants_only_the_roles_of_its_key(
    authenticator: Authenticator, key: str
) -> None:
    asked = {"roles": ["reader", "writer", "unknown"]}
    token = web_token(**asked) if key == "ed" else web_token(EC, **asked)
    found = authenticator.principal(f"Bearer {token}", NOW)
    assert found is not None
    assert found.name == "https://login.example ann@login.example"
    assert found.grants.allow(READ, "/films")
    assert found.grants.allow(WRITE, "/films") is (key == "ec")


def test_a_signed_token_without_roles_has_no_grants(authenticator: Authenticator) -> None:
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
def test_a_token_within_its_bounds_is_valid(
    authenticator: Authenticator, others: dict[str, object]
) -> None:
    assert authenticator.principal(f"Bearer {web_token(**others)}", NOW) is not None


@pytest.mark.parametrize("why", bad_tokens())
def test_an_invalid_token_is_rejected(authenticator: Authenticator, why: str) -> None:
    assert authenticator.principal(f"Bearer {bad_tokens()[why]}", NOW) is None
    assert not authenticator._known, "an invalid token must not be cached"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "ann-token", "Basic ann-token", "Bearer  ann-token", "Bearer ann-token x"],
)
def test_another_header_is_rejected(authenticator: Authenticator, header: str) -> None:
    assert authenticator.principal(header, NOW) is None


def test_a_cached_signed_token_expires(authenticator: Authenticator) -> None:
    header = f"Bearer {web_token(exp=NOW + 60)}"
    assert authenticator.principal(header, NOW) is not None
    assert authenticator.principal(header, NOW + 89) is not None
    assert authenticator.principal(header, NOW + 90) is None


def test_the_cache_of_tokens_is_bounded(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KNOWN_MAX", 3)
    for number in range(10):
        assert authenticator.principal(f"Bearer {web_token(jti=number)}", NOW) is not None
        assert len(authenticator._known) <= 3


def test_new_rules_apply_at_once(authenticator: Authenticator) -> None:
    assert authenticator.principal("Bearer ann-token", NOW) is not None
    authenticator.use(rules_of(FILE.replace(digest("ann-token"), digest("new-token"))))
    assert authenticator.principal("Bearer ann-token", NOW) is None
    assert authenticator.principal("Bearer new-token", NOW) is not None


@pytest.mark.parametrize("why", bad_tokens())
def test_each_invalid_token_costs_one_signature_check(
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
