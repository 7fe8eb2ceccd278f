"""A data directory that was made of a backup, and not started yet: what of, for who founds a group.

All founders must have the same: one that is empty would vouch for logs without rows, and most of
them together would have the others cut theirs. So the group's identity is made of its founders and
the backup (rule M8): those who differ do not speak with each other, nor with the group of before.
"""

import json
from pathlib import Path
from typing import NamedTuple

from docstore.config import Config, database_in
from docstore.errors import BadConfig
from docstore.maintenance.backup.directory import put

FILE = "restored.json"
FORMAT = 1


class Restored(NamedTuple):
    """backup: its id. group: of which it was made. cut: the token of up to where.

    stored_protocol: what the protocols up to that one have added to rows, there may be (rule M7).
    """

    backup: str
    group: str
    slots: int
    cut: str
    stored_protocol: int

    def write(self, data: Path) -> None:
        """Leave it in a data directory, durably. Raises OSError."""
        said = {"format": FORMAT, **self._asdict()}
        put(data / FILE, json.dumps(said, indent=2).encode() + b"\n")


def unfinished_in(data: Path) -> Path:
    """Return the file of documents of a data directory while it is restored."""
    return database_in(data).with_suffix(".unfinished")


def forget(data: Path) -> None:
    """Take away what is said of a restore that came to no end: the last trace but the rows."""
    for name in (FILE, f"{FILE}.new"):
        (data / name).unlink(missing_ok=True)


def restored_in(data: Path) -> Restored | None:
    """Return of what a data directory was made, None if of nothing. Raises BadConfig."""
    if unfinished_in(data).exists():
        raise BadConfig(f"data: a restore into {data} has not come to its end: restore it again")
    if (data / FILE).exists() and not database_in(data).exists():  # It would vouch for nothing.
        raise BadConfig(f"data: {data} was restored, and its documents are gone: restore it again")
    try:
        said = json.loads((data / FILE).read_bytes())
        if said.pop("format") == FORMAT:
            return Restored(**said)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise BadConfig(f"data: {data / FILE} is not what a restore of this version has written")


def insist_on_founding(config: Config, restored: Restored) -> None:
    """Raise BadConfig unless a node is told to found a group that can have what was restored."""
    if config.join or config.standby:
        raise BadConfig("join: this data directory was restored: it founds a group, and joins none")
    if config.slots != restored.slots:
        raise BadConfig(
            f"slots: this data directory was restored, of a group with {restored.slots} slots,"
            f" not {config.slots}"
        )
