"""Every setting: its flag, its variable, its default and its refusals; and other variables."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from docstore.cli.serve_flags import parser
from docstore.config import KEYS, parse
from docstore.documents.timing import ReplicaConfig
from docstore.errors import BadConfig
from docstore.sessions.timing import SessionsConfig
from docstore.streams.timing import StreamsConfig
from gossip.config import Config as GossipConfig
from tests.source import sources

WRONG = "\x00 wrong"
INNER = {
    "replica": ReplicaConfig, "sessions": SessionsConfig, "streams": StreamsConfig,
    "gossip": GossipConfig,
}  # fmt: skip
"""Inner settings, which no operator sets."""


def settings() -> str:
    """Return the settings of operators, a node's configuration without them, and inner ones."""
    flags = {each.dest: each for each in parser()._actions}
    parts = ["# setting: flag, variable, kind; what is said of a wrong value"]
    for key in sorted(KEYS):
        flag = flags.pop(key)
        kind = type(flag).__name__.strip("_").removesuffix("Action").lower()
        parts.append(f"{key}: {flag.option_strings[0]}, DOCSTORE_{key.upper()}, {kind}")
        parts.append(f"    {_refused(key)}")
    parts += ["", "# flags that are no settings"]
    parts += sorted(" ".join(each.option_strings) for each in flags.values())
    parts += ["", "# variables that the source names"]
    parts += sorted(_variables())
    parts += ["", "# the configuration of a node that is told its directory alone"]
    parts += sorted(_lines("", parse({"data": "d"})))
    for name, kind_of_config in INNER.items():
        parts += ["", f"# times and bounds: {name}"]
        parts += sorted(_lines("", kind_of_config()))
    return "\n".join(parts) + "\n"


def _refused(key: str) -> str:
    settings = {"data": "d", "tls_cert_file": "c", "tls_key_file": "k"} if "tls" in key else {}
    try:
        parse({"data": "d", **settings, key: WRONG})
    except BadConfig as error:
        return str(error)
    return "any text"


def _variables() -> Iterator[str]:
    for source in sources():
        if source.is_under("docstore", "gossip"):
            yield from set(re.findall(r'"(DOCSTORE_[A-Z_]*[A-Z])"', source.text))


def _lines(before: str, config: Any) -> Iterator[str]:
    for each in fields(config):
        value = getattr(config, each.name)
        name = f"{before}{each.name}"
        if is_dataclass(value) and not isinstance(value, type):
            yield from _lines(f"{name}.", value)
        else:
            shown = sorted(value) if isinstance(value, frozenset) else value
            yield f"{name} = {str(shown) if shown is not None else 'none'}"
