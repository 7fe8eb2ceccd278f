"""The tree of all commands: options, examples and errors that they have in common."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

from docstore.cli.examples import EXAMPLES
from docstore.cli.terminal import CACERT

WRONG_USAGE = 2
UsageError: Any = typer.BadParameter.__mro__[1]
"""The class of all wrong usage, which Typer does not export."""


class CommandTree(TyperGroup):
    """All commands, with their examples. Those with `--url` also get `--cacert`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for path, command in commands_under(self):
            if any(each.name == "url" for each in getattr(command, "params", ())):
                command.params.append(_cacert())
            if path in EXAMPLES:
                command.epilog = "\n\n".join(["Examples:", *map(_plain, EXAMPLES[path])])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; report wrong usage in one line."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except UsageError as error:
            if not standalone_mode:
                raise
            from docstore.cli.usage_errors import line_of

            sys.stderr.write(line_of(error))
            sys.exit(WRONG_USAGE)
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else 0)


def commands_under(group: TyperGroup, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all groups and commands below a group, each with its path, such as `topic create`."""
    for name, each in group.commands.items():
        yield f"{before}{name}", each
        if isinstance(each, TyperGroup):
            yield from commands_under(each, f"{before}{name} ")


def _plain(example: str) -> str:
    """Return a line of an example whose brackets are no markup."""
    return example.replace("[", r"\[")


def _cacert() -> TyperOption:
    return TyperOption(
        param_decls=["--cacert"], envvar=CACERT, show_envvar=True, metavar="FILE",
        expose_value=False, callback=_believe,
        help="CA certificates to trust for https, in PEM; else those of the system.",
    )  # fmt: skip


def _believe(context: object, parameter: object, file: str | None) -> None:
    """Trust a CA in this command, and in the processes that it starts."""
    if file and not Path(file).is_file():
        raise typer.BadParameter(f"{file}: no such file; give a file with certificates in PEM")
    if file:
        os.environ[CACERT] = file
