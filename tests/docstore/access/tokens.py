"""Valid and invalid tokens, and an access file with the valid ones."""

import hmac
import json
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

ED, EC, OTHER = (
    Ed25519PrivateKey.generate(),
    ec.generate_private_key(ec.SECP256R1()),
    Ed25519PrivateKey.generate(),
)
ISSUER, AUDIENCE = "https://login.example", "films"
NOW = 1_800_000_000.0
TWICE = b'{"sub":"ann","sub":"bob"}'
Private = Ed25519PrivateKey | ec.EllipticCurvePrivateKey


def pem(key: Private) -> str:
    """Return the public half of a key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def digest(token: str) -> str:
    """Return the digest of a token, as in the access file."""
    return sha256(token.encode()).hexdigest()


def part(value: Any) -> str:
    """Return a part of a JSON Web Token."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def signature(key: Private, signed: bytes) -> bytes:
    """Return a signature in the form of JSON Web Tokens."""
    if isinstance(key, Ed25519PrivateKey):
        return key.sign(signed)
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(SHA256())))
    return r.to_bytes(32) + s.to_bytes(32)


def claims(**others: Any) -> dict[str, Any]:
    """Return claims that are valid now; None leaves one out."""
    said = {
        "iss": ISSUER, "aud": AUDIENCE, "sub": "ann@login.example", "exp": NOW + 600,
        "roles": ["reader"],
    }  # fmt: skip
    return {name: value for name, value in (said | others).items() if value is not None}


def web_token(key: Private = ED, head: dict[str, Any] | None = None, **others: Any) -> str:
    """Return a valid token, but for the given key, header members and claims."""
    kid, alg = ("ed", "EdDSA") if isinstance(key, Ed25519PrivateKey) else ("ec", "ES256")
    signed = f"{part({'alg': alg, 'kid': kid} | (head or {}))}.{part(claims(**others))}"
    return f"{signed}.{part(signature(key, signed.encode()))}"


def hmac_token() -> str:
    """Return a token that uses the public key as a shared secret."""
    signed = f"{part({'alg': 'HS256', 'kid': 'ed'})}.{part(claims())}"
    return f"{signed}.{part(hmac.digest(pem(ED).encode(), signed.encode(), 'sha256'))}"


def unsigned_token(algorithm: str = "none") -> str:
    """Return a token without a signature."""
    return f"{part({'alg': algorithm, 'kid': 'ed'})}.{part(claims())}."


def bad_tokens() -> dict[str, str]:
    """Return fault -> invalid token."""
    good = web_token()
    head, body, sign = good.split(".")
    return {
        "nothing": "",
        "unknown": "c2VjcmV0",
        "another case": "ANN-TOKEN",
        "none": unsigned_token(),
        "none, signed": web_token(head={"alg": "none"}),
        "None": unsigned_token("None"),
        "HS256 with the public key": hmac_token(),
        "the other algorithm": web_token(head={"alg": "ES256"}),
        "another key": web_token(OTHER),
        "another key's kid": web_token(head={"kid": "ec"}),
        "no kid": web_token(head={"kid": None}),
        "a kid with a path": web_token(OTHER, head={"kid": "../../dev/null"}),
        "a kid that is a list": web_token(head={"kid": ["ed"]}),
        "a key of its own": web_token(OTHER, head={"jwk": {"kty": "OKP"}}),
        "a critical extension": web_token(head={"crit": ["b64"], "b64": False}),
        "another issuer": web_token(iss="https://login.example.evil"),
        "no issuer": web_token(iss=None),
        "another audience": web_token(aud="films2"),
        "other audiences": web_token(aud=["films2", "x"]),
        "no audience": web_token(aud=None),
        "expired": web_token(exp=NOW - 31),
        "no end": web_token(exp=None),
        "an end too far": web_token(exp=NOW + 3631),
        "an end that is true": web_token(exp=True),
        "an end that is text": web_token(exp=str(NOW + 60)),
        "not yet": web_token(nbf=NOW + 31),
        "no subject": web_token(sub=None),
        "a subject with a line end": web_token(sub="ann\r\n"),
        "roles that are text": web_token(roles="reader"),
        "changed claims": f"{head}.{part(claims(roles=['writer']))}.{sign}",
        "a signature cut short": good[:-4],
        "no signature": f"{head}.{body}.",
        "zeros as a signature": f"{head}.{body}.{part(bytes(64))}",
        "two parts": f"{head}.{body}",
        "four parts": f"{good}.{sign}",
        "padding": f"{good}==",
        "a head that is a list": f"{part([1])}.{body}.{sign}",
        "a claim said twice": f"{head}.{part(TWICE)}.{sign}",
        "too long": web_token(sub="a" * 200, note="a" * 4096),
    }  # fmt: skip


ROLES = """
audience = "films"

[roles.reader]
"/" = "read"

[roles.writer]
"/" = "write"
"""

KEYS = f'''
[keys.ed]
issuer = "{ISSUER}"
public_key = """{pem(ED)}"""
roles = ["reader"]

[keys.ec]
issuer = "{ISSUER}"
public_key = """{pem(EC)}"""
roles = ["reader", "writer"]
'''

FILE = f"""
{ROLES}
[users.ann]
tokens = ["{digest("ann-token")}", "{digest("ann-next-token")}"]
roles = ["writer"]

[users.nobody]
tokens = ["{digest("nobody-token")}"]
roles = []
{KEYS}"""
