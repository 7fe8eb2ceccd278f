"""The command `docstore`: `serve` runs a node, the other commands talk to one."""

import _signal as signal  # type: ignore[import-not-found] # In `signal` itself SIGINT is a traceback.
import gc
import io
import os
import sys
from collections.abc import Callable


def main() -> None:
    """Run the command line and end the process with its exit code."""
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_interruptible:  # There is nothing to clean up before `take_interrupts`.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.flags.optimize:
        sys.exit("docstore: does not run under python -O: its assertions are part of it")
    gc.disable()  # Imports make no garbage; collecting during them takes a sixth of the start.
    _speak_utf8()
    if sys.argv[1:2] == ["serve"]:
        from docstore.cli.serve import serve

        sys.exit(serve(sys.argv[2:]))
    from docstore.cli.app import app

    gc.freeze()
    gc.enable()
    try:
        _run(app)
    finally:
        if is_interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _speak_utf8() -> None:
    """Read and print UTF-8 in every locale, because documents may contain any character."""
    if sys.getfilesystemencoding() != "utf-8":  # Python has decoded the arguments already.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    for word in sys.argv[1:]:
        if word == "--":
            return
        is_text = word.encode(errors="replace").decode() == word
        if not is_text and not os.path.lexists(word):
            sys.stderr.write(f"docstore: the argument {word!r} is not UTF-8\n")
            sys.exit(2)


def _run(app: Callable[..., None]) -> None:
    """Run a command. If its output cannot be written, print one line as for other failures."""
    if sys.stdout is None:  # Standard output is closed: discard the output.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        try:
            app(prog_name="docstore")
        finally:
            sys.stdout.flush()  # At the interpreter's exit, a failure would print a traceback.
    except OSError as error:
        sys.stderr.write(f"docstore: {error.filename or 'the output'}: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Discard what is left in the buffer.
        sys.exit(1)


if __name__ == "__main__":
    main()
