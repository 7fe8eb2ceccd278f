"""The machine under the measurement: its facts, free ports, and a place on a real disk."""

import asyncio
import itertools
import os
import platform
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from docstore.client.local import CLAIM, claim_ports

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_claims: list[socket.socket] = []


class Missing(RuntimeError):
    """Something that the measurement needs is not on this machine; nothing was started."""


def require(program: str, package: str) -> str:
    """Return where `program` is, installing Debian's `package` if we may. Raises Missing."""
    found = shutil.which(program)
    if found is None:
        install(package)
        found = shutil.which(program)
    if found is None:
        message = (
            f"{program} is not installed. On Debian and Ubuntu, as root: apt-get install {package}"
        )
        raise Missing(message)
    return found


def rival(program: str, package: str, *, alone: bool) -> str:
    """Return where `program` is; "" when it is not wanted, or cannot be had."""
    if alone:
        return ""
    try:
        return require(program, package)
    except Missing as missing:
        print(f"{missing}; docstore is measured alone", flush=True)
        return ""


class Places:
    """Free ports and new directories for members."""

    def __init__(self, scratch: Path, members: int) -> None:
        self._scratch, self._members = scratch, members
        self._numbers = itertools.count(1)

    def new(self, name: str) -> tuple[list[int], Path]:
        """Return the ports and the directory of a group."""
        return free_ports(self._members), self._scratch / f"{name}{next(self._numbers)}"


def install(*packages: str) -> None:
    """Install packages of Debian's, as far as we may."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print(f"installing {', '.join(packages)}", flush=True)
    quiet = {"DEBIAN_FRONTEND": "noninteractive", **os.environ}
    for command in (["update", "-qq"], ["install", "-y", "-qq", *packages]):
        subprocess.run(["apt-get", *command], env=quiet, stdout=subprocess.DEVNULL, check=False)


def free_ports(members: int) -> list[int]:
    """Return one port per member; it and the two after it are free, for TCP and UDP.

    They stay ours to the end of this process, even while a member that was killed is down.
    """
    claims = [claim_ports() for _ in range(members)]
    _claims.extend(claims)
    return [claim.getsockname()[1] - CLAIM for claim in claims]


@contextmanager
def scratch(parent: str) -> Iterator[Path]:
    """Give an empty directory on a real disk, and take it away afterwards.

    An fsync on tmpfs costs nothing and would make both sides look good. Raises Missing there.
    """
    kind = filesystem(Path(parent))
    if kind in {"tmpfs", "ramfs"}:
        message = f"{parent} is {kind}, which forgets at power-off: choose a disk with --dir"
        raise Missing(message)
    with tempfile.TemporaryDirectory(prefix="docstore-bench-", dir=parent) as path:
        yield Path(path)


def filesystem(path: Path) -> str:
    """Return the type of the filesystem that holds `path`, "" if the system does not tell."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return ""
    holding = [mount for mount in mounts if path.resolve().is_relative_to(mount[1])]
    return max(holding, key=lambda mount: len(mount[1]))[2] if holding else ""


async def facts(directory: str) -> dict[str, object]:
    """Return what a reader must know to repeat the measurement. No names of hosts, no paths."""
    libraries = ("aiohttp", "aiosqlite", "msgpack", "orjson", "sqlalchemy", "uvloop")
    return {
        **box(),
        "filesystem": filesystem(Path(directory)),
        "libraries": {name: metadata.version(name) for name in libraries},
        "commit": await version(r"(\w+)", "git", "rev-parse", "--short", "HEAD"),
    }


def box() -> dict[str, object]:
    """Return what the machine is, and its Python."""
    cpu = re.search(r"model name\s*:\s*(.+)", _text("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", _text("/proc/meminfo"))
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory[1]) // 1024 if memory else None,
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def rss_mib(pid: int) -> float:
    """Return the memory of a process that is in use."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used, user and system."""
    stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS_PER_S


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return ""


async def version(pattern: str, *command: str) -> str:
    """Return what a program says of itself where `pattern` fits; "unknown" if it does not."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError:
        return "unknown"
    output, _ = await process.communicate()
    found = re.search(pattern, output.decode(errors="replace"))
    return found[1] if found else "unknown"
