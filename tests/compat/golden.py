"""What the present version writes, as bytes in JSON: see `__init__.py`."""

import json
from pathlib import Path
from typing import Any

import msgpack

from docstore.model.operation import Answer
from docstore.wire import requests
from docstore.wire.frames import pack_frame, pack_hello
from docstore.wire.link_messages import PROTOCOL
from docstore.wire.requests import Request
from tests.compat.samples import an_operation, filled, hello, sample, samples

FOLDER = Path(__file__).parent
CONFIGURATION = 7


def request_kinds() -> list[type[Request[Any]]]:
    """Return every request between services, which are those that have a name."""
    classes = [each for each in vars(requests).values() if isinstance(each, type)]
    return [each for each in classes if issubclass(each, Request) and "name" in vars(each)]


def present() -> dict[str, Any]:
    """Return everything that nodes say to each other in this version, a sample of each."""
    return {
        "protocol": PROTOCOL,
        "hello": pack_hello(hello()).hex(),
        "frames": {tag: pack_frame(CONFIGURATION, [message]).hex() for tag, message in samples()},
        "operation": msgpack.packb(an_operation().packed()).hex(),
        "answer": msgpack.packb(sample(Answer)).hex(),
        "requests": {
            each.name: msgpack.packb(filled(each).packed()).hex() for each in request_kinds()
        },
    }


def file_of(protocol: int) -> Path:
    """Return the golden file of a protocol."""
    return FOLDER / f"frames_{protocol}.json"


def goldens() -> list[dict[str, Any]]:
    """Return what each version wrote, the oldest first."""
    files = sorted(FOLDER.glob("frames_*.json"))
    return [json.loads(file.read_text()) for file in files]
