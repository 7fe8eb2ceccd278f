"""Logging that drops a line that cannot be written.

Logs often lie on the disk of the data. When that disk is full, writing a line raises, and the
exception would stop the work that the line reports on.
"""

import contextlib
import logging
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
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
    return stream if isinstance(stream, Unheard) else cast("TextIO", Unheard(stream))


@dataclass(slots=True)
class LogLevel:
    """The level of logs, one of `limits.LOG_LEVELS`, and their form."""

    name: str = "info"
    is_debug: bool = False
    """Whether debug lines are logged; requests read this instead of asking the logger."""
    is_json: bool = False
    """Whether the setting is `json`, so that every line is JSON, also those for people."""


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
    if trace := TRACEPARENT.get():
        line.setdefault("traceparent", trace)
    return line


def _named(
    node: str, logger: object, method: str, line: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    if node:
        line.setdefault("node", node)
    return line


_STANDARD = logging.makeLogRecord({}).__dict__.keys()
"""Attributes of every record; further ones are the values that `extra` adds."""


class Libraries(logging.Handler):
    """Logs the messages of libraries such as asyncio in the form of the node's own lines.

    The event is the first line of a message before values are put into it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        event, message = str(record.msg).partition("\n")[0], record.getMessage()
        values = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if message != event:
            values["message"] = message
        logger = structlog.get_logger(record.name)
        logger.log(record.levelno, event, source=record.name, exc_info=record.exc_info, **values)


Raised = tuple[type[BaseException], BaseException, TracebackType | None]


def _log_uncaught(
    kind: type[BaseException], error: BaseException, at: TracebackType | None
) -> None:
    raised: Raised = (kind, error, at)
    structlog.get_logger("docstore").critical("an exception ends this process", exc_info=raised)


def _log_of_thread(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread else ""
    raised = (args.exc_type, args.exc_value, args.exc_traceback)
    structlog.get_logger("docstore").error("a thread failed", thread=name, exc_info=raised)


def _log_ignored(args: Any) -> None:
    """Log an exception that Python cannot raise, such as one of a finalizer."""
    raised = (args.exc_type, args.exc_value, args.exc_traceback)
    where = repr(args.object)[:200]
    structlog.get_logger("docstore").error("an exception is ignored", where=where, exc_info=raised)


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    structlog.get_logger("docstore").warning(
        "a warning of Python",
        text=str(message),
        category=category.__name__,
        at=f"{filename}:{lineno}",
    )


def say(line: str, event: str, **values: object) -> None:
    """Write a line for people to standard error; with `log = "json"`, log an event instead."""
    if LOG_LEVEL.is_json:
        structlog.get_logger("docstore").error(event, **values)
        return
    with contextlib.suppress(OSError):
        sys.stderr.write(f"docstore: {line}\n")
        sys.stderr.flush()


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
    sys.excepthook, sys.unraisablehook = _log_uncaught, _log_ignored
    threading.excepthook, warnings.showwarning = _log_of_thread, _log_warning
    LOG_LEVEL.is_json = form == "json"
    set_level(level)
