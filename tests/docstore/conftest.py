"""Disks of which there is little, for whoever writes to one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four MiB."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a disk here")
    yield folder
    subprocess.run([umount, str(folder)], check=True)
