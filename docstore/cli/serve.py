"""`docstore serve`: settings from file, environment and flags, in that order; then one node.

Kept apart from the other commands, and from their libraries, so that a node starts quickly.
"""

import argparse
import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docstore.config import KEYS, Config, from_environment, merged, parse
from docstore.errors import BadConfig
from docstore.node import logs

EXIT_BAD_CONFIG = 2


def serve(arguments: Sequence[str]) -> int:
    """Run a node until it is told to stop; return the exit code of the process."""
    try:
        config = read_config(arguments)
        _prepare_data(config.data)
    except BadConfig as error:
        sys.stderr.write(f"docstore: {error}\n")
        return EXIT_BAD_CONFIG
    logs.set_up(config.log, config.log_level)
    from docstore.node.process import run

    return run(config)


def read_config(arguments: Sequence[str]) -> Config:
    """Return the configuration from file, environment and flags. Raises BadConfig."""
    flags = vars(_parser().parse_args(list(arguments)))
    path = flags.pop("config") or os.environ.get("DOCSTORE_CONFIG")
    environment = {key: value for key, value in os.environ.items() if key != "DOCSTORE_CONFIG"}
    from_file: dict[str, Any] = {}
    if path:
        try:
            from_file = tomllib.loads(Path(path).read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadConfig(f"config: {path}: {error}") from None
    return parse(merged(from_file, from_environment(environment), flags))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="docstore serve", description="Run one node.")
    parser.add_argument("--config", help="a TOML file; every flag is also a key in it")
    for key in KEYS:
        flag = "--" + key.replace("_", "-")
        if key in ("insecure", "observer", "standby"):
            parser.add_argument(flag, action="store_const", const=True)
        else:
            parser.add_argument(flag, dest=key, metavar=key.upper())
    return parser


def _prepare_data(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise BadConfig(f"data: {directory}: {error.strerror}") from None
