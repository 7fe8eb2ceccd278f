"""A valid access file is read whole; an invalid one is a one-line error with its place."""

import re

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from docstore.access.grants import AccessLevel, Grants
from docstore.access.rules import rules_of
from docstore.errors import BadConfig
from tests.docstore.access.tokens import FILE, KEYS, ROLES, digest

READ, WRITE, ADMIN = AccessLevel
USER = '[users.ann]\ntokens = ["{}"]\nroles = ["reader"]\n'
ROLE = '[roles.reader]\n"/" = "read"\n'


def _pem(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()


def _with_key(pem: str) -> str:
    return ROLES + f'[keys.k]\nissuer = "i"\npublic_key = """{pem}"""\nroles = ["reader"]\n'


def test_a_level_applies_to_its_path_and_the_segments_below() -> None:
    grants = Grants({"/a/b": WRITE, "/a": READ, "/core/streams/é": ADMIN})
    for path in ("/a/b", "/a/b/c", "/a/b/c/d"):
        assert grants.allow(WRITE, path)
        assert grants.allow(READ, path)
        assert not grants.allow(ADMIN, path)
    for path in ("/a", "/a/bc", "/a/B", "/a/c/b"):
        assert grants.allow(READ, path)
        assert not grants.allow(WRITE, path)
    for path in ("/", "/ab", "/A", "/core/streams/e", "/core/streams", ""):
        assert not grants.allow(READ, path)
    assert grants.allow(ADMIN, "/core/streams/é/records")
    assert Grants({"/": READ}).allow(READ, "/anything/at/all")
    assert not Grants({}).allow(READ, "/")


def test_grants_below_a_path_are_found() -> None:
    grants = Grants({"/a/b": READ})
    assert grants.is_any_below("/")
    assert grants.is_any_below("/a")
    assert not grants.is_any_below("/a/b")
    assert not grants.is_any_below("/a/bc")
    assert not grants.is_any_below("/aa")


def test_the_roles_of_a_user_are_joined() -> None:
    said = """
        [roles.one]
        "/a" = "read"
        "/b" = "write"
        [roles.two]
        "/a" = "admin"
        "/b" = "read"
    """
    rules = rules_of(said + USER.format("0" * 64).replace('"reader"', '"one", "two"'))
    assert rules.users[bytes(32)].grants.levels == {"/a": ADMIN, "/b": WRITE}


def test_a_whole_file_is_read() -> None:
    rules = rules_of(FILE)
    assert set(rules.keys) == {"ed", "ec"}
    assert rules.keys["ed"].algorithm == "EdDSA"
    assert rules.keys["ec"].algorithm == "ES256"
    assert len(rules.users) == 3
    assert not rules_of("").users, "an empty file has no users"


WRONG = {
    "no TOML": ("[users", "must be TOML"),
    "a misspelt table": ("[user.ann]\n", "'user'"),
    "a misspelt member": (ROLE + USER.format("0" * 64) + "role = 1", "users.ann: a key must be"),
    "a level that is none": ('[roles.a]\n"/" = "owner"', "read, write, admin"),
    "a level that is a list": ('[roles.a]\n"/" = ["read"]', "read, write, admin"),
    "a path with dots": ('[roles.a]\n"/a/../b" = "read"', "the segments . and .."),
    "a path with a slash behind it": ('[roles.a]\n"/a/" = "read"', "an empty segment"),
    "a path without a slash": ('[roles.a]\n"a" = "read"', "must begin with /"),
    "a role that is not there": (USER.format("0" * 64), "roles of the file; got 'reader'"),
    "a token as it is": (ROLE + USER.format("ann-token"), "SHA-256"),
    "a digest in capitals": (ROLE + USER.format("A" * 64), "SHA-256"),
    "no list of tokens": (ROLE + '[users.ann]\ntokens = "x"\nroles = []', "list of strings"),
    "a name with a line end": ('[roles."a\\n"]\n', "a name must consist of"),
    "keys without an audience": (ROLE + KEYS.replace('"writer"', '"reader"'), "audience"),
    "an audience without keys": (ROLES, "audience"),
    "a key that is none": (_with_key("x"), "must be a public key"),
    "a curve that is not ours": (
        _with_key(_pem(ec.generate_private_key(ec.SECP384R1()).public_key())), "Ed25519",
    ),
    "RSA": (_with_key(_pem(rsa.generate_private_key(65537, 2048).public_key())), "Ed25519"),
}  # fmt: skip


@pytest.mark.parametrize("why", WRONG)
def test_an_invalid_file_is_a_one_line_error(why: str) -> None:
    text, error = WRONG[why]
    with pytest.raises(BadConfig, match=re.escape(error)) as raised:
        rules_of(text)
    assert "\n" not in str(raised.value)
    assert "ann-token" not in str(raised.value), "the error must not repeat a token"


def test_two_users_cannot_have_one_token() -> None:
    twice = USER.format(digest("x")) + USER.format(digest("x")).replace("ann", "bob")
    with pytest.raises(BadConfig, match="two users have the same token"):
        rules_of(ROLE + twice)


@pytest.mark.parametrize("path", ["/a/*", "/*", "/a/**", "/a/{id}", "/a/[x]", "/a/?", "/a/<id>"])
def test_a_pattern_is_refused_as_a_path(path: str) -> None:
    with pytest.raises(BadConfig, match="must not be a pattern"):
        rules_of(f'[roles.reader]\n"{path}" = "read"\n')
