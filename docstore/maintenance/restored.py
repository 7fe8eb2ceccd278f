"""A note in a data directory about the backup from which it was restored, for its first start.

All founders of a group must be restored from the same backup: a majority of empty founders would
make the others truncate their logs. So the group's identity depends on its founders and the backup
(rule M8): founders with different backups refuse to connect to each other, and so do nodes of the
original group.
"""

import json
from pathlib import Path
from typing import NamedTuple

from docstore.config import Config, database_in
from docstore.errors import BadConfig
from docstore.model.durable_files import replace

FILE = "restored.json"
FORMAT = 1


class Restored(NamedTuple):
    """Origin of a data directory.

    backup: id of the backup. group: id of the original group. cut: token of the backup's cut.
    stored_protocol: greatest protocol whose additions the rows may contain (rule M7).
    """

    backup: str
    group: str
    slots: int
    cut: str
    stored_protocol: int

    def write(self, data: Path) -> None:
        said = {"format": FORMAT, **self._asdict()}
        replace(data / FILE, json.dumps(said, indent=2).encode() + b"\n")


def unfinished_in(data: Path) -> Path:
    return database_in(data).with_suffix(".unfinished")


def forget(data: Path) -> None:
    for name in (FILE, f"{FILE}.new"):
        (data / name).unlink(missing_ok=True)


def restored_in(data: Path) -> Restored | None:
    """Return the origin of a data directory, None if it was not restored. Raises BadConfig."""
    if unfinished_in(data).exists():
        raise BadConfig(f"data: a restore into {data} did not finish: restore it again")
    if (data / FILE).exists() and not database_in(data).exists():
        raise BadConfig(f"data: {data} was restored, and its documents are gone: restore it again")
    try:
        said = json.loads((data / FILE).read_bytes())
        if said.pop("format") == FORMAT:
            return Restored(**said)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise BadConfig(
        f"data: {data / FILE} was not written by a restore of this version: restore it again"
    )


def insist_on_founding(config: Config, restored: Restored) -> None:
    """Raise BadConfig unless the settings found a group with as many slots as the backup."""
    if config.join or config.standby:
        raise BadConfig("join: this data directory was restored: it must found a group")
    if config.slots != restored.slots:
        raise BadConfig(
            f"slots: this data directory was restored, of a group with {restored.slots} slots,"
            f" not {config.slots}"
        )
