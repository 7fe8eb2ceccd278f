"""Three plain processes elect a leader; it is killed, and another goes on with a greater token.

python examples/leader_election.py           by an election of docstore's, over HTTP
python examples/leader_election.py --vote    by a vote of their own, over UDP: no node is needed
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from docstore.client import Client, LocalCluster, Voting


async def by_election(name: str, *urls: str) -> AsyncIterator[int]:
    """Yield the fencing token once we lead. A leader that dies is followed after `ttl_s`."""
    async with Client(urls) as client, client.election("example", candidate=name, ttl_s=1) as mine:
        yield await mine.campaign()
        await mine.lost()  # Ask `mine.leads()` before each action.


async def by_vote(name: str, directory: str, *ports: str) -> AsyncIterator[int]:
    """Yield the fencing token each time that we have begun to lead."""
    members = {each: ("127.0.0.1", int(port)) for each, port in zip("abc", ports, strict=True)}
    async with Voting(name, members, state=Path(directory) / f"{name}.json") as voting:
        async for _ in voting:
            if voting.leads():  # Ask again before each thing that only one may do.
                yield voting.generation


async def member(how: str, name: str, *where: str) -> None:
    """Be one of the three for a while. A write to elsewhere would carry the token."""
    async with asyncio.timeout(25):
        async for token in (by_vote if how == "vote" else by_election)(name, *where):
            print(name, token, flush=True)


def free_ports(count: int) -> list[str]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket(type=socket.SOCK_DGRAM)) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [str(each.getsockname()[1]) for each in sockets]


def main(how: str, where: Sequence[str]) -> None:
    """Start three members, kill the leader, and print its successor."""
    reading, writing = os.pipe()
    run = [sys.executable, __file__, "--member", how]
    processes = {name: subprocess.Popen([*run, name, *where], stdout=writing) for name in "abc"}
    os.close(writing)  # With the last of them `said` ends.
    try:
        with os.fdopen(reading) as said:
            first, token = said.readline().split()
            print(f"{first} leads, with token {token}; it is killed")
            processes[first].kill()
            second, next_token = said.readline().split()
            print(f"{second} leads, with token {next_token}: what {first} sent late is refused")
        assert int(next_token) > int(token)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--member", *words]:
            asyncio.run(member(*words))
        case ["--vote"]:
            with tempfile.TemporaryDirectory() as scratch:
                main("vote", [scratch, *free_ports(3)])
        case _:
            with LocalCluster(3) as nodes:
                main("election", nodes.urls)
