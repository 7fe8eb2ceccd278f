"""`docstore serve --processes N`: run N nodes on one machine, one process each.

A node is one event loop, so it uses at most one core. The supervising process serves no requests:
it starts each node with `docstore serve`, restarts a node that died, forwards signals, and waits.
Each node is a member like any other, with a disk and ports of its own; the nodes of a machine share
a zone.
"""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from docstore.cli.several_settings import flags_of, settings_of_each
from docstore.runtime.tls.settings import TLS_KEYS

EXIT_STOPPED, EXIT_FAILED, EXIT_BAD_CONFIG, EXIT_DISK_FAILED = 0, 1, 2, 74
FINAL = (EXIT_STOPPED, EXIT_BAD_CONFIG, EXIT_DISK_FAILED)
"""Exit codes of a process that would end in the same way if it were restarted."""
PAUSE_S, PAUSE_S_MAX = 0.5, 30.0
"""Seconds before a restart, at first and at most; doubled each time, until a process has run for
`LIVES_S`."""
LIVES_S = 60.0
PR_SET_PDEATHSIG = 1


class Child:
    """One node, with its process while it runs, and its final exit code."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.name = str(told["node_id"])
        self.url = ""
        """URL that the node serves; "" until it has printed it."""
        self.code: int | None = None
        """Final exit code; None while the node runs or will be restarted."""
        self.process: subprocess.Popen[bytes] | None = None
        self.starts_at = 0.0
        """Time of the next start, by the monotonic clock, while the node does not run."""
        self._command = [sys.executable, "-m", "docstore", "serve", *flags_of(told)]
        self._began = 0.0
        self._pause_s = PAUSE_S
        self._said = b""

    def start(self, now: float, end_with_parent: Callable[[], None] | None) -> IO[bytes]:
        self._began = now
        self.process = subprocess.Popen(  # noqa: S603 - its words are ours
            self._command,
            stdout=subprocess.PIPE,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - This process has no threads.
        )
        assert self.process.stdout is not None
        return self.process.stdout

    def hears(self) -> list[str]:
        """Return the lines that the node printed, except the one with its URL."""
        assert self.process is not None
        assert self.process.stdout is not None
        said = self._said + os.read(self.process.stdout.fileno(), 65_536)
        *lines, self._said = said.split(b"\n")
        texts = [line.decode("utf-8", "replace") for line in lines]
        serving = f"docstore {self.name} serves at "
        for text in texts:
            if text.startswith(serving):
                self.url = text.removeprefix(serving)
        return [text for text in texts if not text.startswith(serving)]

    def ended(self, code: int, now: float, *, is_stopping: bool) -> None:
        """Record how the process ended, and schedule a restart unless the code is final."""
        self.process = None
        self._said = b""
        if is_stopping and code == -signal.SIGTERM:
            code = EXIT_STOPPED  # The signal arrived before the node had a handler for it.
        if is_stopping or code in FINAL:
            self.code = code if code in FINAL else EXIT_FAILED
            return
        if now - self._began >= LIVES_S:
            self._pause_s = PAUSE_S
        self.starts_at = now + self._pause_s
        self._pause_s = min(PAUSE_S_MAX, 2 * self._pause_s)


class Several:
    """All nodes of this machine, and the signals that are forwarded to them."""

    def __init__(
        self, name: str, told: Sequence[Mapping[str, Any]], say: Callable[..., None]
    ) -> None:
        """say: writes a line to standard error, or logs an event, as `runtime/logs.py` does."""
        self._name = name
        self._say_error = say
        self._children = [Child(each) for each in told]
        self._selector = selectors.DefaultSelector()
        self._reload = {signal.SIGHUP} if any(each in told[0] for each in TLS_KEYS) else set()
        """Signals that make nodes reload their certificates; empty without TLS."""
        self._end_with_parent = _end_with_parent()
        self._has_told = False
        self._stopping = False

    def run(self) -> int:
        """Run until all nodes have ended; return the worst of their exit codes."""
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, *self._reload):
            signal.signal(number, lambda *_: None)
        self._selector.register(woken, selectors.EVENT_READ)
        while any(child.code is None for child in self._children):
            now = time.monotonic()
            self._start_due(now)
            for key, _ in self._selector.select(self._patience_s(now)):
                if key.data is not None:
                    self._hear(key.data)
                else:
                    self._pass_on(set(os.read(woken, 4096)))
            self._reap(time.monotonic())
        codes = {child.code for child in self._children}
        worst = (EXIT_DISK_FAILED, EXIT_BAD_CONFIG, EXIT_FAILED)
        return next((code for code in worst if code in codes), EXIT_STOPPED)

    def _pass_on(self, numbers: set[int]) -> None:
        """Forward the signals that this process received."""
        if {signal.SIGTERM, signal.SIGINT} & numbers:
            self._stop()
        elif self._reload & numbers:
            for child in self._children:
                if child.process is not None:
                    child.process.send_signal(signal.SIGHUP)

    def _start_due(self, now: float) -> None:
        for child in self._children:
            if child.process is None and child.code is None and child.starts_at <= now:
                output = child.start(now, self._end_with_parent)
                self._selector.register(output, selectors.EVENT_READ, child)

    def _patience_s(self, now: float) -> float | None:
        waiting = [
            child.starts_at - now
            for child in self._children
            if child.process is None and child.code is None
        ]
        return max(0.0, min(waiting)) if waiting else None

    def _hear(self, child: Child) -> None:
        for line in child.hears():
            _say(line)
        self._tell_when_all_serve()

    def _tell_when_all_serve(self) -> None:
        if self._has_told or self._stopping:
            return
        if not all(child.url or child.code for child in self._children):
            return
        urls = [child.url for child in self._children if child.url]
        if urls:
            self._has_told = True
            _say(f"docstore {self._name} serves at {' '.join(urls)}")

    def _reap(self, now: float) -> None:
        for child in self._children:
            if child.process is None or child.process.poll() is None:
                continue
            assert child.process.stdout is not None
            self._selector.unregister(child.process.stdout)
            code = child.process.returncode
            with child.process.stdout:
                child.ended(code, now, is_stopping=self._stopping)
            if not self._stopping:
                again = "is not started again" if child.code is not None else "is started again"
                line = f"{child.name} ended with {code}, and {again}"
                self._say_error(line, "a node ended", node=child.name, code=code, what=again)
            if code == EXIT_BAD_CONFIG and not self._has_told:
                self._stop()  # All nodes have the same settings, so all starts will fail.
            self._tell_when_all_serve()

    def _stop(self) -> None:
        """Stop all nodes, and cancel pending restarts."""
        self._stopping = True
        for child in self._children:
            if child.process is not None:
                child.process.terminate()
            elif child.code is None:
                child.code = EXIT_STOPPED


def _end_with_parent() -> Callable[[], None] | None:
    """Return a function that makes the kernel stop a process with its parent; None off Linux."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(EXIT_FAILED)

    return ask


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # The pipe's reader is gone; the nodes still run.
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def serve_several(settings: Mapping[str, Any], count: int, say: Callable[..., None]) -> int:
    """Run `count` nodes until they stop; return the exit code. Raises BadConfig."""
    told = settings_of_each(settings, count)
    return Several(str(settings.get("node_id", "")), told, say).run()
