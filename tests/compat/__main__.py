"""`python -m tests.compat`: write the files of the present version that are missing."""

import json
from pathlib import Path

from docstore.maintenance.backup.manifest import FORMAT
from docstore.wire.link_messages import PROTOCOL
from tests.compat import backups, golden, stores


def write_frames(file: Path) -> None:
    """Write a sample of everything that nodes send to each other."""
    file.write_text(json.dumps(golden.present(), indent=1) + "\n")


if __name__ == "__main__":
    for file, write in (
        (golden.file_of(PROTOCOL), write_frames),
        (stores.file_of(PROTOCOL), stores.make),
        (backups.file_of(FORMAT), backups.make),
    ):
        if not file.exists():
            write(file)
