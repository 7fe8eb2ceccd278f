"""Durable state of a voter: its latest generation and its vote in it, in one file.

The file is replaced as a whole, and is durable before a message that depends on it is sent. It
names its member, since a process with the file of another member would vote twice.
"""

from pathlib import Path

import orjson

from docstore.client.errors import StateUnusable
from docstore.model import durable_files


def read(path: Path, member: str) -> tuple[int, str]:
    """Return (generation, voted_for), (0, "") if there is no file. Raises StateUnusable."""
    try:
        found = orjson.loads(path.read_bytes())
        generation, voted_for = found["generation"], found["votedFor"]
        is_sound = type(generation) is int and generation >= 0 and isinstance(voted_for, str)
        owner = found["member"]
    except FileNotFoundError:
        return 0, ""
    except OSError as error:
        raise StateUnusable(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError):
        is_sound, generation, voted_for, owner = False, 0, "", member
    if not is_sound:
        raise StateUnusable(
            f"{path} is damaged: the vote of {member} is not known. Start "
            "this member under another name, or after all members have "
            "been told of the loss"
        )
    if owner != member:
        raise StateUnusable(
            f"{path} is the file of {owner}, not of {member}; give each member a file of its own"
        )
    return generation, voted_for


def write(path: Path, member: str, *, generation: int, voted_for: str) -> None:
    """Write the state, and return once it survives a power cut. Raises StateUnusable."""
    content = orjson.dumps({"member": member, "generation": generation, "votedFor": voted_for})
    try:
        durable_files.replace(path, content)
    except OSError as error:
        raise StateUnusable(f"{path} cannot be written: {error}") from error
