"""Values that a shell completes: fixed words, and names that a node knows.

A node that does not answer within half a second completes nothing.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer

from docstore.cli.terminal import CACERT, DEFAULT_URLS

if TYPE_CHECKING:
    from http.client import HTTPConnection

TIMEOUT_S = 0.5
LINKS_MAX = 1000
Complete = Callable[..., list[str]]


def words(*known: str) -> Complete:
    """Complete one of some words."""
    return lambda: list(known)


def names(factory: str) -> Complete:
    """Complete the last segment of a document's link in a factory."""

    def complete(ctx: typer.Context) -> list[str]:
        return [link.rpartition("/")[2] for link in _links(ctx, factory)]

    return complete


def factories(ctx: typer.Context) -> list[str]:
    """Complete the path of a declared factory."""
    found = [each.rpartition("/")[2] for each in _links(ctx, "/core/factories")]
    return [f"/{name[:-1].replace(':', '/')}{name[-1:]}" for name in found]


def links(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the link of a document, or first the path of its factory."""
    factory, slash, _ = incomplete.rpartition("/")
    if not factory or not slash:
        return [f"{path}/" for path in factories(ctx)]
    return _links(ctx, factory)


def members(ctx: typer.Context) -> list[str]:
    """Complete the id of a member of the group."""
    page = _page(ctx, "/core/node-groups/default")
    return [str(each["id"]) for each in page.get("members", ())]


def orders(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a member to sort by, and behind a blank its direction."""
    before, blank, _ = incomplete.rpartition(" ")
    if blank:
        return [f"{before} asc", f"{before} desc"]
    page = _page(ctx, f"{quote(str(ctx.params.get('factory') or ''))}?$limit=1&expand")
    found = page.get("documents", {}).values()
    return sorted({member for each in found for member in each})


def _links(ctx: typer.Context, factory: str) -> list[str]:
    page = _page(ctx, f"{quote(factory)}?$limit={LINKS_MAX}")
    return list(map(str, page.get("documentLinks", ())))


def _page(ctx: typer.Context, path: str) -> dict[str, Any]:
    """Return a page of the first node that answers; {} if none does."""
    import json
    from contextlib import closing, suppress
    from http.client import HTTPException

    from docstore.model.tokens import token_of_environment, with_token

    for url in ctx.params.get("url") or DEFAULT_URLS:
        with suppress(OSError, HTTPException, ValueError), closing(_connection(url)) as node:
            node.request("GET", path, headers=with_token({}, token_of_environment()) or {})
            page = json.loads(node.getresponse().read())
            return page if isinstance(page, dict) else {}
    return {}


def _connection(url: str) -> "HTTPConnection":
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme != "https":
        return HTTPConnection(parts.netloc, timeout=TIMEOUT_S)
    import ssl

    trusted = ssl.create_default_context(cafile=os.environ.get(CACERT))
    return HTTPSConnection(parts.netloc, timeout=TIMEOUT_S, context=trusted)
