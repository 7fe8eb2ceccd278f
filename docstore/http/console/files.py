"""The files of the console: a fixed table of names, each read at its first request.

A name outside the table does not exist, so no path leads out of this folder. The headers of each
answer restrict the page: a browser takes scripts and styles from this node alone and never from
within the page, allows no other page to frame it, and does not guess the type of a file.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from aiohttp.hdrs import IF_NONE_MATCH

from docstore.http.headers import RequestHead
from docstore.http.reply import Reply, header_lines

UI, DOCS = "/core/ui", "/core/docs"
PAGE = "index.html"
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
NAMES = (
    "changes.js", "console.css", "document.js", "dom.js", "events.js", "factories.js", "group.js",
    "icon.svg", "interface.js", "json.js", "list.js", "main.js", "node.js", "places.js",
    "streams.js", "types.js", "words.js",
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
