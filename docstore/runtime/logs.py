"""Logging that drops a line that cannot be written.

Logs often lie on the disk of the data. When that disk is full, writing a line raises, and the
exception would stop the work that the line reports on.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO, cast

from docstore.runtime.trace.context import TRACEPARENT


@contextlib.contextmanager
def _missing(library: str) -> Iterator[None]:
    """Make imports of a library that is not loaded yet fail meanwhile."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[library]


# structlog would load rich, 25 ms and 4 MiB, for tracebacks that `format_exc_info` turns into text.
with _missing("rich"):
    import structlog


class Unheard:
    """A text stream that drops text which cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _unheard(stream: TextIO) -> TextIO:
    return cast("TextIO", Unheard(stream))


@dataclass(slots=True)
class LogLevel:
    """The level of logs, one of `limits.LOG_LEVELS`."""

    name: str = "info"
    is_debug: bool = False
    """Whether debug lines are logged; requests read this instead of asking the logger."""


LOG_LEVEL = LogLevel()


def set_level(name: str) -> None:
    LOG_LEVEL.name, LOG_LEVEL.is_debug = name, name == "debug"
    number = logging.getLevelNamesMapping()[name.upper()]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(number))


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Log nothing meanwhile: for commands that work on a node's disk and report themselves."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def traced(logger: object, method: str, line: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Add the trace context of the request in which a line is logged."""
    if trace := TRACEPARENT.get():
        line.setdefault("traceparent", trace)
    return line


def _named(
    node: str, logger: object, method: str, line: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    if node:
        line.setdefault("node", node)
    return line


class Libraries(logging.Handler):
    """Logs the messages of libraries such as asyncio in the form of the node's own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        said = structlog.get_logger(record.name)
        said.log(record.levelno, record.getMessage(), source=record.name, exc_info=record.exc_info)


def set_up(form: str, level: str = "info", node: str = "") -> None:
    """Log to standard error, as `text`, as `json`, or (`auto`) as text on a terminal.

    node: the id that each line names, since several nodes may write to one file; "" for none.
    """
    sys.stdout, sys.stderr = _unheard(sys.stdout), _unheard(sys.stderr)
    text = form == "text" or (form == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer() if text else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            partial(_named, node),
            traced,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(handlers=[Libraries(logging.WARNING)], force=True)
    set_level(level)
