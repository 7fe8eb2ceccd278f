"""Files read, written and spoiled behind a store's back."""

import random
from pathlib import Path


def read(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def size(path: Path) -> int:
    return path.stat().st_size


def flip(content: bytearray, rng: random.Random) -> None:
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def blank(content: bytearray, rng: random.Random) -> None:
    page = rng.randrange(len(content) // 4096) * 4096
    content[page : page + 4096] = bytes(4096)


def shorten(content: bytearray, rng: random.Random) -> None:
    del content[rng.randrange(len(content)) :]
