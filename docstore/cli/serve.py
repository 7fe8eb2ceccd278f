"""`docstore serve`: read settings from file, environment and flags; then run one or more nodes.

This file imports none of the other commands or their libraries, so that a node starts quickly.
"""

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docstore.cli.late_certificates import import_aiohttp
from docstore.cli.serve_flags import parser
from docstore.config import from_environment, merged, parse
from docstore.errors import BadConfig
from docstore.runtime import logs

EXIT_BAD_CONFIG = 2


def serve(arguments: Sequence[str]) -> int:
    """Run one or more nodes until they stop; return the exit code of the process."""
    if {"--log=json", "--json"} & set(arguments) or os.environ.get("DOCSTORE_LOG") == "json":
        logs.set_up("json")  # The settings may be wrong, and that line is JSON too.
    try:
        settings, processes = read_settings(arguments)
        if settings.get("log") == "json":
            logs.set_up("json")
        if processes is not None:
            from docstore.cli.several import serve_several

            return serve_several(settings, processes, logs.say)
        config = parse(settings)
        _prepare_data(config.data)
    except BadConfig as error:
        logs.say(str(error), "this process ends", why=str(error))
        return EXIT_BAD_CONFIG
    logs.set_up(config.logging.form, config.logging.level, config.node_id)
    import_aiohttp()
    from docstore.node.process import run

    return run(config, settings)


def read_settings(arguments: Sequence[str]) -> tuple[dict[str, Any], int | None]:
    """Return the settings of file, environment and flags, and the number of processes.

    The number is None without --processes. Raises BadConfig.
    """
    flags = vars(parser().parse_args(list(arguments)))
    path = flags.pop("config") or os.environ.get("DOCSTORE_CONFIG")
    processes = flags.pop("processes")
    environment = {key: value for key, value in os.environ.items() if key != "DOCSTORE_CONFIG"}
    from_file: dict[str, Any] = {}
    if path:
        try:
            from_file = tomllib.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise BadConfig(f"config: {path}: {why}") from None
    return merged(from_file, from_environment(environment), flags), processes


def _prepare_data(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise BadConfig(f"data: {directory}: {error.strerror}") from None
