"""Secrets: their signatures, and their storage."""

import base64
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from docstore.errors import BadConfig, BadRequest
from docstore.subscriptions.sealing import SealedByAnother, seal_in
from docstore.subscriptions.signing import key_of, message_id, secret_of, signed

LINK = "/core/subscriptions/1"


def test_the_example_of_the_specification() -> None:
    head = signed(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert head == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_equal_messages_have_equal_ids() -> None:
    assert message_id(b"a") == message_id(b"a") != message_id(b"b")


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "whsec_x", f"whsec_{'A' * 28}", f"whsec_{'A' * 92}", "A" * 44, "whsec_é",
     f"whsec_{'A' * 31}-", f" whsec_{'A' * 44}"],
)  # fmt: skip
def test_an_invalid_secret_is_refused(secret: str) -> None:
    with pytest.raises(BadRequest, match="whsec_"):
        key_of(secret)


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_secret_contains_its_key(length: int) -> None:
    key = bytes(range(length))
    assert key_of(secret_of(key)) == key


def file_of(directory: Path, *keys: bytes) -> str:
    path = directory / "keys"
    path.write_bytes(b"\n".join(keys) + b"\n")
    return str(path)


def test_a_seal_is_opened_by_each_key_and_for_its_subscription_alone(tmp_path: Path) -> None:
    old, new = Fernet.generate_key(), base64.b64encode(bytes(range(240, 256)) * 2)
    sealed = seal_in(file_of(tmp_path, old)).seal(LINK, "whsec_x")
    assert "whsec" not in sealed
    both = seal_in(file_of(tmp_path, new, old))
    assert both.open(LINK, sealed) == "whsec_x"
    assert seal_in(file_of(tmp_path, new)).open(LINK, both.seal(LINK, "whsec_y")) == "whsec_y"
    with pytest.raises(SealedByAnother):
        both.open("/core/subscriptions/2", sealed)
    with pytest.raises(SealedByAnother):
        seal_in(file_of(tmp_path, new)).open(LINK, sealed)
    for other in ("", "x", sealed[:-2], sealed + "é"):
        with pytest.raises(SealedByAnother):
            both.open(LINK, other)


@pytest.mark.parametrize("text", [b"", b"c2hvcnQ=", b"not base64!", "é".encode()])
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(BadConfig, match="callback_key_file"):
        seal_in(file_of(tmp_path, text))
    with pytest.raises(BadConfig, match="No such file"):
        seal_in(str(tmp_path / "nowhere"))
