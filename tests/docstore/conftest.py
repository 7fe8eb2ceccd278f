"""Three nodes for the tests of a file, a client of theirs, and a disk with little room."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from docstore.client import Client, LocalCluster


@pytest.fixture(scope="module")
def group() -> Iterator[LocalCluster]:
    """Three nodes; a file whose tests need other ones has a fixture of this name."""
    with LocalCluster(3) as nodes:
        yield nodes


@pytest.fixture
async def store(group: LocalCluster) -> AsyncIterator[Client]:
    async with Client(group.urls) as client:
        yield client


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
