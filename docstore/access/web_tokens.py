"""JSON Web Tokens that a key of the access file has signed, with EdDSA or ES256 only.

The key determines the algorithm, never the token: a token that names another algorithm, or none, is
invalid. A `kid` is only looked up in a table.

Source: RFC 7519, RFC 7515, RFC 8725 (best current practices), RFC 8037 (EdDSA).
Left out: encrypted tokens, critical extensions, keys by URL, other algorithms.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple, TypeGuard

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from docstore.errors import BadRequest
from docstore.model import json

BYTES_MAX = 4096
LIFE_S_MAX = 3600.0
"""Maximum time until a token's end, in seconds: it bounds the use of a stolen token."""
LEEWAY_S = 30.0
"""Maximum difference of clocks, in seconds."""
TEXT_MAX = 256
SIGNATURE_BYTES = 64
"""Length of a signature, for both algorithms."""

_TOKEN = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key that verifies tokens of an issuer. roles: those that its tokens may have."""

    algorithm: str
    public: Ed25519PublicKey | EllipticCurvePublicKey
    issuer: str
    roles: frozenset[str]
    rate: float = 0.0
    """Requests per second of each subject."""

    def has_signed(self, signature: bytes, signed: bytes) -> bool:
        try:
            if isinstance(self.public, Ed25519PublicKey):
                self.public.verify(signature, signed)
            else:
                half = SIGNATURE_BYTES // 2
                r, s = (int.from_bytes(part) for part in (signature[:half], signature[half:]))
                self.public.verify(encode_dss_signature(r, s), signed, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


class TokenClaims(NamedTuple):
    """Claims that a token has proven. until_s: expiry with leeway, in seconds since 1970."""

    name: str
    """Name from issuer and subject. It contains a space, so that it differs from all users of the
    file."""
    roles: frozenset[str]
    until_s: float
    rate: float


class _Parts(NamedTuple):
    head: Mapping[str, Any]
    claims: Mapping[str, Any]
    signature: bytes
    signed: bytes


def key_of(pem: str, issuer: str, roles: frozenset[str], rate: float) -> VerificationKey:
    """Return the key in a PEM. Raises ValueError."""
    try:
        public = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("must be a public key in PEM") from None
    if isinstance(public, Ed25519PublicKey):
        return VerificationKey("EdDSA", public, issuer, roles, rate)
    if isinstance(public, EllipticCurvePublicKey) and isinstance(public.curve, SECP256R1):
        return VerificationKey("ES256", public, issuer, roles, rate)
    raise ValueError("must be a key of Ed25519 (EdDSA) or P-256 (ES256)")


_ANY_POINT = bytes([0x58, *[0x66] * 31])
_NOBODY = VerificationKey("", Ed25519PublicKey.from_public_bytes(_ANY_POINT), "", frozenset())
"""Verified if a token names an unknown key, so that this takes as long as a wrong signature."""
_NO_PARTS = _Parts({}, {}, bytes(SIGNATURE_BYTES), b"")


def claims_of(
    token: str, keys: Mapping[str, VerificationKey], audience: str, now_s: float
) -> TokenClaims | None:
    """Return the verified claims of a token, None if it is invalid for any reason."""
    parts = _parts_of(token) or _NO_PARTS
    key = _key_for(parts.head, keys)
    is_signed = (key or _NOBODY).has_signed(parts.signature, parts.signed)
    if key is None or not is_signed:
        return None
    return _claims(parts.claims, key, audience, now_s)


def _parts_of(token: str) -> _Parts | None:
    found = _TOKEN.match(token) if len(token) <= BYTES_MAX else None
    if found is None:
        return None
    try:
        head, claims, signature = map(_bytes_of, found.groups())
        said = json.parse_object(head), json.parse_object(claims)
    except (ValueError, BadRequest):
        return None
    if len(signature) != SIGNATURE_BYTES:
        return None
    return _Parts(*said, signature, token.rpartition(".")[0].encode())


def _bytes_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _key_for(
    head: Mapping[str, Any], keys: Mapping[str, VerificationKey]
) -> VerificationKey | None:
    name = head.get("kid")
    key = keys.get(name) if isinstance(name, str) else None
    if key is None or head.get("alg") != key.algorithm or "crit" in head:
        return None
    return key


def _claims(
    said: Mapping[str, Any], key: VerificationKey, audience: str, now_s: float
) -> TokenClaims | None:
    meant = said.get("aud")
    audiences = meant if isinstance(meant, list) else [meant]
    if said.get("iss") != key.issuer or audience not in audiences:
        return None
    begins, ends = _time(said.get("nbf", 0)), _time(said.get("exp"))
    if not begins - LEEWAY_S <= now_s < ends + LEEWAY_S or ends > now_s + LIFE_S_MAX + LEEWAY_S:
        return None
    subject, roles = said.get("sub"), said.get("roles", [])
    if not _is_name(subject) or not isinstance(roles, list) or not all(map(_is_name, roles)):
        return None
    return TokenClaims(
        f"{key.issuer} {subject}", key.roles.intersection(roles), ends + LEEWAY_S, key.rate
    )


def _time(value: Any) -> float:
    """Return seconds since 1970, NaN for other values, which no comparison accepts."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else nan


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= TEXT_MAX and value.isprintable()
