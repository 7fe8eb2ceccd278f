"""The machine under the measurement: its facts, free ports, and a place on a real disk."""

import asyncio
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

PORTS_FROM = 21000
# A docstore node takes three ports in a row, an etcd member two.
PORTS_PER_MEMBER = 10


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


def install(*packages: str) -> None:
    """Install packages of Debian's, as far as we may."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print(f"installing {', '.join(packages)}", flush=True)
    quiet = {"DEBIAN_FRONTEND": "noninteractive", **os.environ}
    for command in (["update", "-qq"], ["install", "-y", "-qq", *packages]):
        subprocess.run(["apt-get", *command], env=quiet, stdout=subprocess.DEVNULL, check=False)


def free_ports(members: int) -> list[int]:
    """Return one port per member; it and the few after it are free for TCP and UDP."""
    found: list[int] = []
    for port in range(PORTS_FROM, 32000, PORTS_PER_MEMBER):
        if all(_is_free(port + offset) for offset in range(3)):
            found.append(port)
        if len(found) == members:
            return found
    message = "no free ports between 21000 and 32000"
    raise Missing(message)


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


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


async def facts(etcd: str, wrk: str, directory: str) -> dict[str, object]:
    """Return what a reader must know to repeat the measurement. No names of hosts, no paths."""
    libraries = ("aiohttp", "aiosqlite", "msgpack", "orjson", "sqlalchemy", "uvloop")
    return {
        **box(),
        "filesystem": filesystem(Path(directory)),
        "libraries": {name: metadata.version(name) for name in libraries},
        "etcd": await _first(r"etcd Version: (\S+)", etcd, "--version"),
        "wrk": await _first(r"wrk (\S+)", wrk, "-v"),
        "commit": await _first(r"(\w+)", "git", "rev-parse", "--short", "HEAD"),
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


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return ""


async def _first(pattern: str, *command: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError:
        return "unknown"
    output, _ = await process.communicate()
    found = re.search(pattern, output.decode(errors="replace"))
    return found[1] if found else "unknown"
