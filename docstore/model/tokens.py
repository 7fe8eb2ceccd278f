"""The token that a client shows: where it comes from, and how it is sent.

It is read anew for each request, so that one that is replaced, or ends within the hour, is no
matter of restarts. A file that is empty while it is replaced says what it said before.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

FORM = "printable ASCII without spaces"
Token = str | Callable[[], str]
"""A token, or what gives one; "" for none."""


def token_in(path: str) -> Token:
    """Return what reads the token in a file, spaces around it left out; "" for no file."""
    return _File(Path(path)).token if path else ""


def token_of_environment() -> Token:
    """Return the token in DOCSTORE_TOKEN, or what reads it in the file of DOCSTORE_TOKEN_FILE."""
    said = os.environ.get("DOCSTORE_TOKEN", "").strip()
    return said or token_in(os.environ.get("DOCSTORE_TOKEN_FILE", ""))


def with_token(headers: Mapping[str, str] | None, token: Token) -> Mapping[str, str] | None:
    """Return the headers of a request with its token, spaces around that left out.

    Raises ValueError, which never shows it.
    """
    if not token:
        return headers
    said = (token if isinstance(token, str) else token()).strip()
    if not _is_token(said):
        raise ValueError(f"a token is {FORM}")
    return {**(headers or {}), "Authorization": f"Bearer {said}"}


class _File:
    """A file with a token."""

    def __init__(self, path: Path) -> None:
        self._path, self._last = path, ""

    def token(self) -> str:
        """Return the token in it, or the last one that was. Raises ValueError."""
        try:
            self._last = _read(self._path)
        except ValueError:
            if not self._last:
                raise
        return self._last


def _is_token(said: str) -> bool:
    return said.isascii() and said.isprintable() and said != "" and " " not in said


def _read(path: Path) -> str:
    try:
        said = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise ValueError(f"the token's file {path}: {why}") from None
    if not _is_token(said):
        raise ValueError(
            f"the token's file {path}: {'a token is ' + FORM if said else 'it is empty'}"
        )
    return said
