"""Hooks of mkdocs: pages of the root of the repository, the list of decisions, and their links."""

import re
import tomllib
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
MOVED = {
    "README.md": "first-steps.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages of the root -> their place in the site."""

BOOSTS = {"how-to": 4, "decisions": 0.2}
"""Folder -> weight of its pages in a search: what to do comes before why it is so."""

_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
_IMAGE = re.compile(r'\b(src|srcset|href)="([^"]+)"')


def on_config(config: Any) -> Any:
    """List all decisions, oldest first."""
    records = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    build: list[dict[str, Any]] = config.nav[-1]["Build"]
    pages = ["README.md", *(record.name for record in records)]
    build[-1] = {"Decisions": [f"decisions/{name}" for name in pages]}
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root."""
    for name, place in MOVED.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Weigh the page for searches, and lead its links to their places in the site."""
    here = page.file.src_uri
    page.meta["search"] = {"boost": BOOSTS.get(here.partition("/")[0], 1)}
    came_from = {place: name for name, place in MOVED.items()}.get(here, f"docs/{here}")
    return "".join(
        part if part.startswith("```") else _led(part, came_from, here)
        for part in _FENCE.split(markdown)
    )


def _led(text: str, came_from: str, here: str) -> str:
    def link(found: re.Match[str]) -> str:
        target = _target(found[2], came_from, here)
        return f"[{found[1]}]({target})" if target else found[1]

    def image(found: re.Match[str]) -> str:
        return f'{found[1]}="{_target(found[2], came_from, here)}"'

    return _IMAGE.sub(image, _LINK.sub(link, text))


def _target(link: str, came_from: str, here: str) -> str:
    """Return where a link leads in the site; nothing if it leads to a file without an address."""
    path, hash_, anchor = link.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return link
    named = normpath(join(dirname(came_from), path))
    if named.startswith("docs/") or named in MOVED:
        place = MOVED.get(named, named.removeprefix("docs/"))
        return relpath(place, dirname(here) or ".") + hash_ + anchor
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    source = project.get("urls", {}).get("Source", "")
    return f"{source}/blob/main/{named}" if source else ""
