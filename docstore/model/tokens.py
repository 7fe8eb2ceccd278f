"""The bearer token of a client, from a file or the environment.

A file is read for each request, so that a replaced token needs no restart. While the file is empty
or unreadable, the last token is used.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

FORM = "printable ASCII without spaces"
Token = str | Callable[[], str]
"""A token, or a function that returns one; "" for none."""


def token_in(path: str) -> Token:
    """Return a function that reads the token in a file, stripped of spaces; "" for no path."""
    return _File(Path(path)).token if path else ""


def token_of_environment() -> Token:
    """Return the token of DOCSTORE_TOKEN, or a function that reads DOCSTORE_TOKEN_FILE."""
    said = os.environ.get("DOCSTORE_TOKEN", "").strip()
    return said or token_in(os.environ.get("DOCSTORE_TOKEN_FILE", ""))


def with_token(headers: Mapping[str, str] | None, token: Token) -> Mapping[str, str] | None:
    """Return the headers of a request with its token. Raises ValueError, which never shows it."""
    if not token:
        return headers
    said = (token if isinstance(token, str) else token()).strip()
    if not _is_token(said):
        raise ValueError(f"a token must be {FORM}")
    return {**(headers or {}), "Authorization": f"Bearer {said}"}


class _File:
    """A file with a token."""

    def __init__(self, path: Path) -> None:
        self._path, self._last = path, ""

    def token(self) -> str:
        """Return the token in the file, or the last one it had. Raises ValueError."""
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
        why = error.strerror if isinstance(error, OSError) else "the file is not ASCII"
        raise ValueError(f"the token's file {path}: {why}") from None
    if not _is_token(said):
        raise ValueError(
            f"the token's file {path}: {'a token must be ' + FORM if said else 'the file is empty'}"
        )
    return said
