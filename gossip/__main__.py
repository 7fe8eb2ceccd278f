"""Watch a group from a terminal: `python -m gossip --bind 127.0.0.1:7001 --join 127.0.0.1:7000`.

Joins under a name, prints one line per change, and leaves on Ctrl-C. A shell.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gossip import Address, Agent, Change, Config, GossipError, Moment, Security, Snapshot
from gossip.errors import ConfigError
from gossip.security.key_file import KeyFile


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one member until it is interrupted; return the exit status, 2 for a refusal."""
    options = _parser().parse_args(arguments)
    try:
        asyncio.run(_watch(options))
    except GossipError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


async def _watch(options: argparse.Namespace) -> None:
    bind: Address = options.bind
    agent = Agent(
        options.name or f"{bind[0]}:{bind[1]}",
        bind,
        config=Config.parse({"preset": options.preset}),
        seeds=options.join,
        meta=options.meta.encode(),
        snapshot=Snapshot(options.snapshot) if options.snapshot is not None else None,
        security=_security(options),
    )
    agent.subscribe(lambda change: _print_change(change, agent.explain(change.member.name)))
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    await agent.start()
    try:
        for member in agent.members():
            _print_change(Change(member, None))
        await interrupted.wait()
        await agent.leave()
    finally:
        await agent.stop()


def _print_change(change: Change, moments: Sequence[Moment] = ()) -> None:
    member = change.member
    host, port = member.address
    before = f" (was {change.previous})" if change.previous is not None else ""
    clock = time.strftime("%H:%M:%S")
    line = f"{clock} {member.name} {host}:{port} {member.state}{before} i{member.incarnation}"
    why = f", {moments[-1].reporter}: {moments[-1].cause}" if moments else ""
    print(line + why, flush=True)


def _security(options: argparse.Namespace) -> Security:
    keyring = None
    if options.key_file is not None:
        try:
            keyring = KeyFile(options.key_file)
        except OSError as error:
            raise ConfigError(f"--key-file: {error}") from error
    return Security(keyring=keyring, label=options.label, allow=options.allow)


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()):
        raise argparse.ArgumentTypeError(f"must be host:port; got {text!r}")
    return host.strip("[]"), int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gossip", description=__doc__)
    parser.add_argument("--bind", type=_address, default=("127.0.0.1", 7000), metavar="HOST:PORT")
    parser.add_argument("--join", type=_address, action="append", default=[], metavar="HOST:PORT")
    parser.add_argument("--name", help="stable name of this member; the bound address if absent")
    parser.add_argument("--meta", default="", help="text that all peers will see")
    parser.add_argument("--snapshot", type=Path, metavar="FILE", help="addresses over restarts")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="keys in base64, one a line")
    parser.add_argument("--label", default="", help="name of the group, for groups with one key")
    parser.add_argument("--allow", action="append", default=[], metavar="NETWORK")
    parser.add_argument("--preset", default="lan", choices=("lan", "wan", "loopback"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
