"""What goes wrong in the pipeline: one root, and one line for each, whoever wraps it.

What fails in a process of Spark's comes back as its text: a traceback in Python, in a message, in a
stack trace of Java. `line_of` finds in there what was said in the first place.
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
"""Kinds of errors whose name adds nothing to what they say."""

_TRACEBACK = re.compile(r"^(?:  .*\n)+(?P<kind>[A-Za-z_][\w.]*)(?:: ?(?P<said>.*))?$", re.MULTILINE)
_JAVA = re.compile(r"^: (?:[\w$]+\.)+[\w$]+: (?P<said>.+)$", re.MULTILINE)
_IN_TASK = re.compile(r"^Job aborted due to stage failure: .*?\): (?:(?:[\w$]+\.)+[\w$]+: )?")
"""What Spark puts before the words of what failed in a task of its own."""
_STATE = re.compile(r"\s*SQLSTATE: \w+;?")


class PipelineError(Picklable):
    """The root of all errors of the pipeline's own."""


class SparkFailed(PipelineError, PySparkException):
    """Spark could not do it: its first line is why, and `__context__` what Spark said of it."""

    def __init__(self, line: str) -> None:
        PySparkException.__init__(self, message=line)


class WrongCall(PipelineError, ValueError):
    """What a helper was asked for cannot be."""


EXPECTED = (
    DocstoreError, PipelineError, PySparkException, Py4JError, OSError, ValueError, RuntimeError,
    ArithmeticError,
)  # fmt: skip
"""What can go wrong without a mistake of ours."""


def line_of(error: BaseException) -> str:
    """Return what an error says, in one line."""
    text = str(error)
    if isinstance(error, PySparkException | Py4JError):
        text = _innermost(text)
    line = " ".join(text.split()).removeprefix("docstore: ")
    return line[:LINE_MAX] or type(error).__name__


def plainly(function: Callable[P, T]) -> Callable[P, T]:
    """Have a function of the session raise PipelineErrors alone for what can go wrong.

    What is no error of the pipeline's own becomes SparkFailed, or WrongCall, which is a ValueError.
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
    """Return the line that was said first, of all that was put around it."""
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
