"""Run a command, and all processes that it starts, while a lock or leadership is held.

The lock is released only after all of the processes have ended: a remaining one would run at the
same time as the next holder. On Linux this process is their subreaper, so it also finds a child
whose parent has ended, and a child in a session of its own. On other systems the processes are
those in the process group of the command.

Each process gets SIGTERM once. SIGKILL follows after `PATIENCE_S`, when this process is signalled
again, and in any case before the lease ends: until then no other candidate can hold the lock.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from docstore.client.elections import Candidacy

PATIENCE_S = 10.0
"""Seconds between SIGTERM and SIGKILL."""
RESERVE = 1 / 6
"""Fraction of the TTL reserved for killed processes to end: half of the third of it that is left
when a proof lapses."""
LOOK_S = 0.05
NOT_STARTED = 127
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
IS_LINUX = sys.platform == "linux"


async def run(turn: Candidacy, words: Sequence[str], *, as_json: bool) -> int:
    """Return the exit code of a command, once it and all processes that it started have ended.

    as_json: print `candidate`, `fence`, `lost` and `exit` on standard error at the end.
    """
    fence = turn.fence()
    code, has_lost = await _run(turn, words, fence)
    if as_json:
        tell_json({"candidate": turn.candidate, "fence": fence, "lost": has_lost, "exit": code})
    return code


def tell_json(page: dict[str, Any]) -> None:
    """Print an object on standard error, since standard output belongs to the command."""
    sys.stderr.write(orjson.dumps(page).decode() + "\n")


async def _run(turn: Candidacy, words: Sequence[str], fence: str) -> tuple[int, bool]:
    """Return (exit code, whether the lock or leadership was lost before the command ended)."""
    environment = os.environ | {"DOCSTORE_FENCE": fence}
    try:
        command = Command(words, environment)
    except OSError as error:
        sys.stderr.write(f"docstore: {words[0]}: {error.strerror}\n")
        return NOT_STARTED, False
    lost = asyncio.create_task(turn.lost())
    try:
        await asyncio.wait({command.ended, lost}, return_when=asyncio.FIRST_COMPLETED)
        has_lost = not command.ended.done()
        if has_lost:
            sys.stderr.write(f"docstore: {turn.candidate} has lost the lock or leadership\n")
    finally:
        lost.cancel()
        await command.end(turn)
    code = command.ended.result()
    if has_lost and code == 0:
        return 1, True
    return code if code >= 0 else 128 - code, has_lost


class Command:
    """A child process with its descendants."""

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        """Start the process. Raises OSError."""
        ours = _children().get(os.getpid(), ()) if IS_LINUX else ()
        self._others = {pid for pid, _ in ours}
        """Children that this process had before it executed this program (`exec`)."""
        self._process = subprocess.Popen(  # noqa: S603 - the user's own
            words,
            env=environment,
            preexec_fn=_prepared(),  # noqa: PLW1509 - one system call
            process_group=None if IS_LINUX else 0,
        )
        # Not a process of asyncio's: if asyncio signals a process that has just died, it takes the
        # exit code away from the thread that waits for it there (CPython's issue 127049).
        self.ended = asyncio.create_task(asyncio.to_thread(self._process.wait))
        """Exit code of the command itself, once it has ended."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    async def end(self, turn: Candidacy) -> None:
        """Return once every process has ended, even if the caller is cancelled meanwhile."""
        began, told, is_killing, is_cancelled = time.monotonic(), set[int](), False, False
        while running := self._running():
            left_s = turn.lease.kept_s() - RESERVE * turn.lease.ttl_s
            is_over = left_s <= 0 or time.monotonic() - began >= PATIENCE_S
            is_killing = is_killing or is_over
            for pid in running if is_killing else running - told:
                # A process of another user cannot be signalled, only waited for.
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if is_killing else signal.SIGTERM)
            told |= running
            try:
                await asyncio.sleep(min(LOOK_S, max(left_s, LOOK_S / 10)))
            except asyncio.CancelledError:
                is_killing = is_cancelled = True
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        await self.ended
        if is_cancelled:
            raise asyncio.CancelledError

    def _running(self) -> set[int]:
        if not IS_LINUX:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, 0)
                return {-self._process.pid}
            return set()
        self._reap()
        children, running = _children(), set[int]()
        looked = [os.getpid()]
        for parent in looked:
            found = [each for each in children.get(parent, ()) if each[0] not in self._others]
            looked += [pid for pid, _ in found]
            running |= {pid for pid, has_ended in found if not has_ended}
        return running

    def _reap(self) -> None:
        """Reap ended orphans; a thread waits for the command itself."""
        with suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid == self._process.pid:
                    return
                os.waitpid(found.si_pid, os.WNOHANG)


def _children() -> dict[int, list[tuple[int, bool]]]:
    """Return parent -> its children, each with whether it is a zombie or dead."""
    children: dict[int, list[tuple[int, bool]]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isascii() and each.name.isdecimal():
            with suppress(OSError):  # The process has ended since it was listed.
                # The program's name is in parentheses, and may contain parentheses.
                stat = (each / "stat").read_bytes()
                state, parent, *_ = stat.rpartition(b")")[2].split()
                children.setdefault(int(parent), []).append((int(each.name), state in b"ZX"))
    return children


def _prepared() -> Callable[[], object] | None:
    """Make this process the subreaper of its descendants; return the command's first function.

    The function has the kernel kill the command when this process dies: it must not run without the
    lock.
    """
    if not IS_LINUX:
        return None
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
