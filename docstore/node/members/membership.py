"""The gossip agent of a node, and its knowledge of the members for the rest of the node."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgpack

from docstore.config import Config
from docstore.errors import BadConfig
from docstore.storage.store import Recovered
from gossip import Agent, Change, Keyring, Member, Moment, Security, State
from gossip import Config as GossipConfig
from gossip.errors import BindFailed, KeyringError, MetaTooLarge
from gossip.security.key_file import KeyFile
from gossip.security.rotation import Rotation

WHY_MAX = 8
"""Greatest number of status changes that the node group's page explains for a member."""

PRESETS = {
    "loopback": GossipConfig.loopback,
    "lan": GossipConfig.lan,
    "wan": GossipConfig.wan,
}


class GossipMembership:
    """One gossip agent, named as the node."""

    def __init__(
        self, config: Config, me: str, recovered: Recovered, changed: Callable[[], None]
    ) -> None:
        self._me = me
        self._changed = changed
        reached: dict[str, Any] = {"http": config.url, "peer": config.peer_advertise}
        if config.kafka is not None:
            reached["kafka"] = str(config.kafka.advertise)
        meta = reached | {"zone": config.zone, "boot": recovered.boot}
        bind = config.gossip
        self._seeds: set[tuple[str, int]] = set()
        try:
            self._agent = Agent(
                me,
                bind,
                config=PRESETS[config.gossip_preset](),
                advertise=None if config.gossip_advertise == bind else config.gossip_advertise,
                meta=msgpack.packb(meta),
                security=Security(keyring=_keyring(config.gossip_key_file)),
            )
        except MetaTooLarge as error:
            raise BadConfig(
                f"zone, advertise and peer_advertise are too long together; shorten them: {error}"
            ) from None
        self._agent.subscribe(self._on_change)

    async def start(self) -> None:
        """Bind and begin to join. Raises OSError when the port is taken."""
        try:
            await self._agent.start()
        except BindFailed as error:
            raise OSError(str(error)) from error

    async def stop(self) -> None:
        """Announce that this node leaves, and stop."""
        await self._agent.leave()
        await self._agent.stop()

    def look_at(self, address: tuple[str, int]) -> None:
        if address not in self._seeds:
            self._seeds.add(address)
            self._agent.add_seed(address)

    def gone(self) -> frozenset[str]:
        """Return the members known to be dead or to have left; unknown ones are not among them."""
        return frozenset(
            member.name
            for member in self._agent.members()
            if member.state in (State.DEAD, State.LEFT)
        )

    def peer_addresses(self) -> dict[str, tuple[str, int]]:
        """Return the addresses for links that the other live members announce."""
        found = {}
        for member in self._agent.members():
            if member.name == self._me or member.state is not State.ALIVE or not member.meta:
                continue
            host, port = msgpack.unpackb(member.meta).get("peer", ("", 0))
            if host:
                found[member.name] = (str(host), int(port))
        return found

    def rotation(self) -> Rotation:
        """Return the steps that change the gossip keys. Raises KeyringError without keys."""
        return self._agent.rotation()

    def counters(self) -> Mapping[str, int]:
        return self._agent.counters

    def describe(self) -> list[dict[str, Any]]:
        return [self._describe(member) for member in self._agent.members()]

    def _on_change(self, change: Change) -> None:
        self._changed()

    def _describe(self, member: Member) -> dict[str, Any]:
        meta = msgpack.unpackb(member.meta) if member.meta else {}
        host, port = member.address
        page = {
            "id": member.name,
            "status": member.state.name,
            "address": meta.get("http", ""),
            "gossip": f"{host}:{port}",
            "incarnation": member.incarnation,
            "zone": meta.get("zone", ""),
            "secondsSinceChange": round(time.monotonic() - member.changed_at_s, 1),
        }
        if "kafka" in meta:
            page["kafka"] = meta["kafka"]
        why = [_moment(moment) for moment in self._agent.explain(member.name)]
        return page | ({"why": why[-WHY_MAX:]} if why else {})


def _keyring(path: str) -> Keyring | None:
    """Return the keys in a file. Raises BadConfig when they cannot be read."""
    if not path:
        return None
    try:
        return KeyFile(Path(path))
    except (OSError, ValueError, KeyringError) as error:
        raise BadConfig(f"gossip_key_file: {error}") from error


def _moment(moment: Moment) -> dict[str, Any]:
    return {
        "status": moment.state.name,
        "secondsAgo": round(time.monotonic() - moment.at_s, 1),
        "incarnation": moment.incarnation,
        "by": moment.reporter,
        "cause": moment.cause,
    }
