"""The files of the console: a fixed table of names, each read at its first request.

A name outside the table does not exist, so no path leads out of this folder. The headers of each
answer restrict the page: a browser takes scripts and styles from this node alone and never from
within the page, allows no other page to frame it, and does not guess the type of a file.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from aiohttp.hdrs import ACCEPT, IF_NONE_MATCH

from docstore.http.headers import RequestHead
from docstore.http.reply import Reply, header_lines

UI, DOCS = "/core/ui", "/core/docs"
PAGE = "index.html"
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
NAMES = (
    "changes.js", "charts.js", "columns.js", "console.css", "declare.js", "document.js", "dom.js",
    "events.js", "export.js", "factories.js", "feed.js", "form.js", "group.js", "groups.js",
    "holders.js", "icon.svg", "interface.js", "json.js", "leases.js", "list.js", "main.js",
    "members.js", "node.js", "ownership.js", "parts.css", "places.js", "questions.js", "queue.js",
    "rates.js", "refresh.js", "streams.js", "subscriptions.js", "tree.js", "types.js", "unsaved.js",
    "uplot-licence.txt", "uplot.css", "uplot.js", "words.js",
)  # fmt: skip
PATHS: Mapping[str, str] = {UI: PAGE, DOCS: PAGE} | {f"{UI}/{name}": name for name in NAMES}
"""Path -> file. The page itself reads its path to decide what to show."""
POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
GUARDS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of each file. `no-cache`: a browser checks each file for a newer version before use."""


def leads_to_console(request: RequestHead) -> bool:
    """Return whether a request for `/` is that of a browser, which gets the console."""
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get(ACCEPT, "")


def lead() -> Reply:
    """Return the redirect of a browser from `/` to the console."""
    return Reply(303, b"", header_lines({"Location": UI, "Vary": ACCEPT}))


def answer(request: RequestHead, path: str) -> Reply:
    """Return the file at a path of the table, or 304 if the client has it."""
    content, tag = _read(PATHS[path])
    kind = TYPES[PATHS[path].rpartition(".")[2]]
    head = header_lines({"ETag": tag, **GUARDS})
    if tag in request.headers.get(IF_NONE_MATCH, ""):
        return Reply(304, b"", head)
    return Reply(200, content, header_lines({"Content-Type": kind}) + head)


@cache  # The cache is bounded, since only names of the table are read.
def _read(name: str) -> tuple[bytes, str]:
    content = files(__package__).joinpath(name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:16]}"'
