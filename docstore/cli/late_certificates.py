"""Lets aiohttp read the certificates of the system when they are needed.

aiohttp reads them twice when it is imported. That takes 40 ms of processor and 2 MiB, which most
commands and nodes need not spend: they use no https, or have the CAs of their settings.
"""

import ssl
from typing import Any


class _LateContext(ssl.SSLContext):
    """A TLS context that reads the certificates before its first connection."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]
        self.set_default_verify_paths()
        return self.wrap_bio(*arguments, **named)


def _postpone(context: ssl.SSLContext) -> None:
    context.__class__ = _LateContext


def import_aiohttp() -> None:
    """Import aiohttp; the contexts that it makes meanwhile read no certificates yet."""
    ssl.SSLContext.set_default_verify_paths = _postpone  # type: ignore[assignment]
    try:
        import aiohttp  # noqa: F401
    finally:
        del ssl.SSLContext.set_default_verify_paths  # The inherited one is visible again.
