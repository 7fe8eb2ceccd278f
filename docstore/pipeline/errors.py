"""Define the root of the pipeline's errors, and reduce each error to one line.

An error in a process of Spark arrives as text: a traceback of Python, in a message, in a stack
trace of Java. `line_of` finds the original message in it.
"""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from docstore.errors import DocstoreError, Picklable

P = ParamSpec("P")
T = TypeVar("T")
LINE_MAX = 1000
PLAIN = ("ValueError", "RuntimeError", "AnalysisException", "ParseException")
"""Kinds of errors whose names are left out of messages."""

_TRACEBACK = re.compile(r"^(?:  .*\n)+(?P<kind>[A-Za-z_][\w.]*)(?:: ?(?P<said>.*))?$", re.MULTILINE)
_JAVA = re.compile(r"^: (?:[\w$]+\.)+[\w$]+: (?P<said>.+)$", re.MULTILINE)
_IN_TASK = re.compile(r"^Job aborted due to stage failure: .*?\): (?:(?:[\w$]+\.)+[\w$]+: )?")
"""Prefix that Spark puts before the message of an error in one of its tasks."""
_STATE = re.compile(r"\s*SQLSTATE: \w+;?")


class PipelineError(Picklable):
    """The root of all errors of the pipeline."""


class SparkFailed(PipelineError, PySparkException):
    """An error of Spark. The text is its reason; `__context__` is the original error."""

    def __init__(self, line: str) -> None:
        PySparkException.__init__(self, message=line)


class WrongCall(PipelineError, ValueError):
    """A helper was called with wrong arguments."""


EXPECTED = (
    DocstoreError, PipelineError, PySparkException, Py4JError, OSError, ValueError, RuntimeError,
    ArithmeticError,
)  # fmt: skip
"""Errors that do not mean a fault of this program."""


def line_of(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, PySparkException | Py4JError):
        text = _innermost(text)
    line = " ".join(text.split()).removeprefix("docstore: ")
    return line[:LINE_MAX] or type(error).__name__


def plainly(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a helper so that it raises PipelineErrors only.

    Other errors become SparkFailed, or WrongCall, which is a ValueError.
    """

    @functools.wraps(function)
    def calling(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except PipelineError:
            raise
        except (PySparkException, Py4JError) as error:
            raise SparkFailed(line_of(error)) from None
        except (ValueError, DocstoreError) as error:
            raise WrongCall(line_of(error)) from None

    return calling


def _innermost(text: str) -> str:
    """Return the original message, without the texts that Spark wraps around it."""
    tracebacks = list(_TRACEBACK.finditer(text))
    if tracebacks:
        found = tracebacks[-1]
        said = found["said"] or _first_line(text[found.end() :])
        kind = found["kind"].rpartition(".")[2]
        is_ours = found["kind"].startswith("docstore.")
        text = said if is_ours or kind in PLAIN else f"{kind}: {said}"
    else:
        java = _JAVA.search(text)
        text = java["said"] if java else _first_line(text)
    return _STATE.sub("", _IN_TASK.sub("", text))


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")
