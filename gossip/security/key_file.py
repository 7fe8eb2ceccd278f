"""A keyring in a file: each step is on disk before it is in memory. A shell.

So a restart has the keys of the last step, and a file that cannot be written leaves the keys as
they were. The file is replaced by a new one of mode 0600, so it is never half written.
"""

from __future__ import annotations

import asyncio
import base64
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gossip.errors import KeyringError
from gossip.messages import KeyVerb
from gossip.security.keyring import Keyring, keys_in


class KeyFile(Keyring):
    """The keyring in a file."""

    def __init__(self, file: Path) -> None:
        """Read the file, the first key of which seals. Raises KeyringError, OSError."""
        super().__init__(keys_in(file.read_text()))
        self._file = file
        self._lock = asyncio.Lock()

    async def take(self, step: KeyVerb, key: bytes) -> None:
        """Take one step of a rotation; LIST only checks that the file can be written."""
        async with self._lock:
            keys = self._after(step, key)
            try:
                await asyncio.to_thread(_write, self._file, keys.values(), step)
            except OSError as error:
                raise KeyringError(
                    f"the key file {self._file} cannot be written ({error.strerror}):"
                    " let the process write the file and its directory"
                ) from error
            self._keys = keys


def _write(file: Path, keys: Iterable[bytes], step: KeyVerb) -> None:
    """Replace the file by one with these keys, of mode 0600. LIST only tries to make the new one.

    Raises OSError, and the file is as it was.
    """
    file = file.resolve()
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as writer:
            writer.writelines(base64.b64encode(key) + b"\n" for key in keys)
            writer.flush()
            os.fsync(descriptor)
        if step is not KeyVerb.LIST:
            new.replace(file)
            _sync(file.parent)
    finally:
        new.unlink(missing_ok=True)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
