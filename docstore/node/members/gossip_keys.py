"""The keys that encrypt gossip on all members of the group, and the steps that change them.

A step concerns all configured members, live or not, and is refused while one of them is down: it
would come back with its old keys, and the others could not open its messages.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from docstore.documents.view import GroupView
from docstore.errors import BadRequest, Conflict
from docstore.node.members.membership import GossipMembership
from gossip.errors import KeyringError, RotationFailed
from gossip.security.rotation import Rotation

Json = dict[str, Any]

KINDS = ("InstallKeyRequest", "UseKeyRequest", "RemoveKeyRequest")
_KEY_ID = re.compile(r"[0-9a-f]{8}\Z")


class GroupKeys:
    """The gossip keys of the group."""

    def __init__(self, me: str, membership: GossipMembership, view: GroupView) -> None:
        self._me = me
        self._membership = membership
        self._view = view
        self._turn = asyncio.Lock()

    async def page(self) -> Json:
        """Return the keys that each member holds. Raises Conflict if gossip is not encrypted."""
        rotation, names = self._rotation()
        holders = await rotation.holders(names)
        return {
            "documentSelfLink": "/core/node-groups/default/gossip-keys",
            "kind": "GossipKeys",
            "members": [
                {"id": each.name, "keys": list(each.ids)}
                | ({"problem": each.problem} if each.problem else {})
                for each in holders
            ],
        }

    async def change(self, asked: Mapping[str, Any]) -> Json:
        """Have all members take one step; return the step's key, and the page.

        Raises BadRequest, Conflict.
        """
        key = _key_of(asked)
        async with self._turn:
            rotation, names = self._rotation()
            try:
                if asked["kind"] == "InstallKeyRequest":
                    key = await rotation.install(names, key)
                elif asked["kind"] == "UseKeyRequest":
                    await rotation.use(names, key)
                else:
                    await rotation.remove(names, key)
            except RotationFailed as error:
                raise Conflict(str(error)) from None
            return {"key": key.hex()} | await self.page()

    def _rotation(self) -> tuple[Rotation, Sequence[str]]:
        names = self._view.configuration.names
        if self._me not in names:
            raise Conflict(
                f"node {self._me} is not a member of the group: send the request to a member"
            )
        try:
            return self._membership.rotation(), names
        except KeyringError:
            raise Conflict(
                "gossip is not encrypted: start all nodes with gossip_key_file"
            ) from None


def _key_of(asked: Mapping[str, Any]) -> bytes:
    """Return the identifier of the key in a request; b"" asks for a new key. Raises BadRequest."""
    kind, key = asked.get("kind"), asked.get("id")
    if kind not in KINDS:
        raise BadRequest(f"`kind` must be one of {', '.join(KINDS)}")
    if key is None and kind == "InstallKeyRequest":
        return b""
    if not isinstance(key, str) or not _KEY_ID.match(key):
        raise BadRequest(
            "`id` must be the id of a key: eight digits and letters a to f, as GET lists it"
        )
    return bytes.fromhex(key)
