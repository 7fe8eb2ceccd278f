"""The command `docstore`: `serve` runs a node, everything else talks to one."""

import gc
import os
import sys
from collections.abc import Callable


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.flags.optimize:
        sys.exit("docstore: does not run under python -O: its assertions are part of it")
    gc.disable()  # What is imported stays: to look through it is a sixth of a start.
    if sys.argv[1:2] == ["serve"]:
        from docstore.cli.serve import serve

        sys.exit(serve(sys.argv[2:]))
    from docstore.cli.app import app

    gc.freeze()
    gc.enable()
    _run(app)


def _run(app: Callable[..., None]) -> None:
    """Run a command. Output that cannot be written is one line, as any other reason."""
    if sys.stdout is None:  # Closed: what is said goes nowhere, and nobody minds.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        try:
            app(prog_name="docstore")
        finally:
            sys.stdout.flush()  # Not at the exit of the interpreter, which cannot say why.
    except OSError as error:
        sys.stderr.write(f"docstore: {error.filename or 'the output'}: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # For what is in the buffer still.
        sys.exit(1)


if __name__ == "__main__":
    main()
