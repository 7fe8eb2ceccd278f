"""`docstore restore`: create the data directory of a founder from backups."""

import time
from pathlib import Path
from typing import Any

from docstore.cli.backup import progress
from docstore.maintenance.backup.restoring import restore
from docstore.runtime.logs import silenced


def restore_now(directory: Path, data: Path) -> dict[str, Any]:
    """Run `restore` without log lines; return the result as `--json` prints it."""
    began = time.monotonic()
    with silenced(), progress() as tell:
        restored, rows = restore(directory, data, lambda manifest, part: tell(part))
    seconds = round(time.monotonic() - began, 3)
    found = restored._asdict()
    found["storedProtocol"] = found.pop("stored_protocol")
    return {**found, "rows": rows, "seconds": seconds}
