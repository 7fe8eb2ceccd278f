"""The command `docstore`: `serve` runs a node, everything else talks to one."""

import gc
import sys


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.flags.optimize:
        sys.exit("docstore: does not run under python -O: its assertions are part of it")
    gc.disable()  # What is imported stays: to look through it is a tenth of a start.
    if sys.argv[1:2] == ["serve"]:
        from docstore.cli.serve import serve

        sys.exit(serve(sys.argv[2:]))
    from docstore.cli.app import app

    gc.enable()
    app(prog_name="docstore")


if __name__ == "__main__":
    main()
