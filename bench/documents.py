"""The documents both sides store: 200 bytes of JSON, many keys, no value twice."""

import random

VALUE_BYTES = 200
NUMBER_DIGITS = 12
TAILS = 64

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_HEAD, _MIDDLE, _END = '{"number":"', '","text":"', '"}'


def links(count: int, prefix: str = "d") -> list[str]:
    """Return the links of `count` documents."""
    return [f"/bench/{prefix}{number:07}" for number in range(count)]


def tails(seed: int) -> list[str]:
    """Return what follows the running number in a value, different texts of one length."""
    rng = random.Random(seed)
    length = VALUE_BYTES - len(_HEAD) - NUMBER_DIGITS - len(_MIDDLE) - len(_END)
    return [_MIDDLE + "".join(rng.choices(_LETTERS, k=length)) + _END for _ in range(TAILS)]


def value(number: int, tail: str) -> str:
    text = f"{_HEAD}{number:0{NUMBER_DIGITS}}{tail}"
    assert len(text) == VALUE_BYTES
    return text


def request(method: str, path: str, body_head: str = "", body_bytes: int = 0) -> str:
    """Return an HTTP/1.1 request as it goes over the wire, up to `body_head`."""
    about_body = f"Content-Type: application/json\r\nContent-Length: {body_bytes}\r\n"
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"{about_body if body_bytes else ''}\r\n{body_head}"
    )


def put(link: str) -> str:
    """Return the head of a PUT of `link`; number and tail complete it."""
    return request("PUT", link, _HEAD, VALUE_BYTES)
