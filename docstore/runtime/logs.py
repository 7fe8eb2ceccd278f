"""What a node says, and that it may go unheard: a log must not stop what it tells of.

Logs often lie on the disk of the data. When that is full, writing a line raises, and the first
thing to be said of a full disk is that it is full: the exception would have taken the place of
what follows. So a line that cannot be written is dropped.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO, cast

import structlog

from docstore.runtime.trace.context import TRACEPARENT


class Unheard:
    """A text stream that drops what cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand over what was written, or drop it."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """Be the stream in everything else."""
        return getattr(self._stream, name)


def _unheard(stream: TextIO) -> TextIO:
    return cast("TextIO", Unheard(stream))


@dataclass(slots=True)
class LogLevel:
    """What is logged, see `limits.LOG_LEVELS`."""

    name: str = "info"
    is_debug: bool = False
    """Asked for each request."""


LOG_LEVEL = LogLevel()


def set_level(name: str) -> None:
    """Log lines of this level and above, from now on."""
    LOG_LEVEL.name, LOG_LEVEL.is_debug = name, name == "debug"
    number = logging.getLevelNamesMapping()[name.upper()]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(number))


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Log nothing meanwhile: for commands that work on a node's disk, and say so themselves."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def traced(logger: object, method: str, line: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Say in a line of which request it is, if it is of one that says so itself."""
    if trace := TRACEPARENT.get():
        line.setdefault("traceparent", trace)
    return line


def _named(
    node: str, logger: object, method: str, line: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    """Say in a line which node says it, where that is known."""
    if node:
        line.setdefault("node", node)
    return line


class Libraries(logging.Handler):
    """Takes what libraries log, such as asyncio, and says it as everything else is said."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a line in the form of the others."""
        said = structlog.get_logger(record.name)
        said.log(record.levelno, record.getMessage(), source=record.name, exc_info=record.exc_info)


def set_up(form: str, level: str = "info", node: str = "") -> None:
    """Log to standard error, as `text`, as `json`, or (`auto`) as text on a terminal.

    node: who is named in each line, since several may write to one file; "" for nobody.
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
