"""One member as a process, ours or kinship's: tells what it learns, a JSON line each.

    python member.py ours|kinship NAME PORT SEED_PORT PRESET

Run as a script, since kinship lives in an environment of its own. A line is
{"t": seconds, "what": "joined" | "dead" | "left" | "suspect", "name": ...}.
"""

import asyncio
import json
import sys
import time


def say(what: str, name: str) -> None:
    """Write one line at once."""
    line = json.dumps({"t": time.time(), "what": what, "name": name})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def ours(name: str, port: int, seed: int, preset: str) -> None:
    """Run a member of `gossip` until it is killed."""
    from gossip import Agent, Config, news

    config = Config.parse({"preset": preset})
    agent = Agent(name, ("127.0.0.1", port), config=config, seeds=[("127.0.0.1", seed)])
    words = {
        news.Joined: "joined",
        news.Failed: "dead",
        news.Left: "left",
        news.Suspected: "suspect",
    }
    reader = agent.events()
    await agent.start()
    async for said in reader:
        if type(said) in words:
            say(words[type(said)], said.member.name)


async def kinship(name: str, port: int, seed: int, preset: str) -> None:
    """Run a member of kinship until it is killed."""
    import kinship as rival

    make = {"lan": rival.Config.lan, "loopback": rival.Config.local}[preset]
    config = make(
        name=name,
        bind=f"127.0.0.1:{port}",
        seeds=[f"127.0.0.1:{seed}"],
        insecure_plaintext=True,
        max_inbound_streams_per_ip=128,
    )
    words = {
        "MemberJoined": "joined",
        "MemberDead": "dead",
        "MemberLeft": "left",
        "MemberSuspect": "suspect",
    }
    async with rival.Cluster(config) as cluster:
        events = cluster.events()
        for member in cluster.members():
            if member.name != name:
                say("joined", member.name)
        async for event in events:
            word = words.get(type(event).__name__)
            if word is not None:
                say(word, event.member.name)


if __name__ == "__main__":
    which, me, bind, towards, settings = sys.argv[1:]
    asyncio.run({"ours": ours, "kinship": kinship}[which](me, int(bind), int(towards), settings))
