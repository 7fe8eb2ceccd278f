"""Chains of backups, one of each format, and their contents."""

import tarfile
import tempfile
from pathlib import Path

from docstore.model.document import Row
from docstore.reads.blocks import Branch
from tests.docstore.maintenance.backup.chains import Chain
from tests.docstore.storage.logs import Author

FOLDER = Path(__file__).parent


def contents() -> tuple[list[Row], list[Row], list[Branch]]:
    """Return the rows of two backups, and versions without a log. They stay what they are."""
    author = Author()
    first = [author.row(slot, f"/films/{slot}-\u00e9") for slot in (1, 1, 6)]
    then = [
        author.row(6, "/films/6-\u00e9", epoch=3, owner="n2", deleted=True),
        author.row(1, "/films/new", epoch=1 << 40, state=b'{"n":[1,2.5,null]}'),
    ]
    branches = [Branch(author.row(2, "/weak/a")._replace(n=n), n % 3) for n in (1, 2, 3)]
    return first, then, branches


def make(file: Path) -> None:
    """Write a chain, and keep its directory."""
    with tempfile.TemporaryDirectory() as folder:
        chain = Chain(Path(folder))
        first, then, branches = contents()
        chain.add(first, kept={3: (9, 4)}, ends={3: 9})
        chain.add(then, branches=branches)
        with tarfile.open(file, "w:xz") as archive:
            archive.add(folder, "backups")


def file_of(number: int) -> Path:
    """Return the chain that is kept of a format."""
    return FOLDER / f"backup_{number}.tar.xz"


def files() -> list[Path]:
    """Return the chains that are kept, the oldest first."""
    return sorted(FOLDER.glob("backup_*.tar.xz"))
