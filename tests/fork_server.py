"""Nodes and commands of tests are forks of a process that has imported what they need.

`python -m docstore serve` takes a second of processor time to start, a command half a second, and
nearly all of it is imports; the tests start hundreds of each. A fork is nevertheless a process of
its own: it has its own signals, files and exit code.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from docstore.client.local import launch

ROOT = Path(__file__).parent.parent
PR_SET_CHILD_SUBREAPER = 36
PYTHON = (sys.executable, "-m")
DOCSTORE, CHAOS = "docstore", "tests.chaos.node"
NEEDED = (
    "docstore.node.process",
    "docstore.cli.serve",
    "docstore.cli.app",
    "docstore.client.client",
)


class Fork:
    """A process that was forked for this one, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._reap(os.WNOHANG)

    def _reap(self, options: int) -> int | None:
        with self._lock:
            if self.returncode is None:
                ended, status = os.waitpid(self.pid, options)
                self.returncode = os.waitstatus_to_exitcode(status) if ended else None
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once there is one. Raises subprocess.TimeoutExpired."""
        if self.poll() is None:
            handle, poll = os.pidfd_open(self.pid), select.poll()
            poll.register(handle, select.POLLIN)
            try:
                ended = poll.poll(None if timeout is None else timeout * 1000)
            finally:
                os.close(handle)
            if not ended:
                raise subprocess.TimeoutExpired(DOCSTORE, timeout or 0.0)
        code = self._reap(0)  # A process that strace traces is strace's to reap first.
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)


class ForkServer:
    """Starts `docstore`; the process that forks starts with the first command."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def launch(
        self, command: Sequence[str], log: IO[bytes], environment: Mapping[str, str]
    ) -> "Fork | subprocess.Popen[bytes]":
        """Start a command as `local.launch` does: a node by a fork, anything else as it is."""
        *python, module = command[: len(PYTHON) + 1]
        is_node = tuple(python) == PYTHON and module in (DOCSTORE, CHAOS)
        if not is_node or _of_python(environment) != AT_FIRST:
            return launch(command, log, environment)
        with Path(os.devnull).open("rb") as nothing:
            return self._fork(command[len(PYTHON) :], environment, (nothing, log, log))

    def run(
        self, *arguments: str, environment: Mapping[str, str] = os.environ, timeout_s: float = 60.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run `docstore` to its end; return its exit code and output."""
        with Path(os.devnull).open("rb") as nothing, TemporaryFile() as out, TemporaryFile() as err:
            fork = self._fork((DOCSTORE, *arguments), environment, (nothing, out, err))
            try:
                code = fork.wait(timeout_s)
            finally:
                fork.kill()
            printed = []
            for file in (out, err):
                file.seek(0)
                printed.append(file.read().decode())
        return subprocess.CompletedProcess(arguments, code, *printed)

    def _fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[IO[bytes]]
    ) -> Fork:
        request = json.dumps([arguments, dict(environment), str(Path.cwd())]).encode()
        with self._lock:
            server = self._socket or self._start()
            _adopt(orphans=True)
            try:
                socket.send_fds(server, [request], [file.fileno() for file in files])
                return Fork(int(server.recv(64)))
            finally:
                _adopt(orphans=False)

    def _start(self) -> socket.socket:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=ROOT, pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        return self._socket

    def stop(self) -> None:
        """End the process that forks; its forks continue."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()


SERVER = ForkServer()


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Python reads only when it starts."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


AT_FIRST = _of_python(os.environ)


def _adopt(*, orphans: bool) -> None:
    """Become the parent of orphans of processes below this one, or stop being it."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0) == 0


def _orphan() -> int:
    """Fork a process whose parent has ended; return its id, 0 in the process itself."""
    readable, writable = os.pipe()
    parent = os.fork()
    if parent == 0:
        orphan = os.fork()
        if orphan == 0:
            os.close(readable)
            os.close(writable)
            return 0
        os.write(writable, str(orphan).encode())
        os._exit(0)
    os.waitpid(parent, 0)
    orphan = int(os.read(readable, 64))
    os.close(readable)
    os.close(writable)
    return orphan


def _next(asking: socket.socket) -> list[str]:
    """Fork for each request until the tests end; return the module and arguments in a fork."""
    while True:
        request, files, _, _ = socket.recv_fds(asking, 1 << 20, 3)
        if not request:
            sys.exit()
        if orphan := _orphan():
            for file in files:
                os.close(file)
            asking.send(str(orphan).encode())
            continue
        asking.close()
        arguments, environment, folder = json.loads(request)
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        return list(arguments)


def main() -> None:
    """Import what nodes and commands need, and become one for each request."""
    from docstore.__main__ import main as docstore

    gc.disable()
    for module in NEEDED:
        importlib.import_module(module)
    gc.freeze()
    gc.enable()
    module, *sys.argv[1:] = _next(socket.socket(fileno=int(sys.argv[1])))
    if module == DOCSTORE:
        docstore()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
