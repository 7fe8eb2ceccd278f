"""The token that a client shows: where it comes from, and how it is sent.

It is read anew for each request, so that one that is replaced, or ends within the hour, is no
matter of restarts.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

Token = str | Callable[[], str]
"""A token, or what gives one; "" for none."""


def token_in(path: str) -> Token:
    """Return what reads the token in a file, spaces around it left out; "" for no file."""
    return partial(_read, Path(path)) if path else ""


def token_of_environment() -> Token:
    """Return the token in DOCSTORE_TOKEN, or what reads it in the file of DOCSTORE_TOKEN_FILE."""
    said = os.environ.get("DOCSTORE_TOKEN", "").strip()
    return said or token_in(os.environ.get("DOCSTORE_TOKEN_FILE", ""))


def with_token(headers: Mapping[str, str] | None, token: Token) -> Mapping[str, str] | None:
    """Return the headers of a request with its token. Raises ValueError, which never shows it."""
    if not token:
        return headers
    said = token if isinstance(token, str) else token()
    if not said.isascii() or not said.isprintable() or " " in said:
        raise ValueError("a token is printable ASCII without spaces")
    return {**(headers or {}), "Authorization": f"Bearer {said}"}


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise ValueError(f"the token's file {path}: {why}") from None
