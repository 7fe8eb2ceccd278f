"""The configuration of the group: applies what the register decided, and changes it.

A change goes to the register's leader and is answered when its first step is decided. The leader
takes the other steps by itself; the node group's page shows them.
"""

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Any

import structlog

from docstore.config import ZONE_BYTES_MAX
from docstore.documents.events import ViewChanged
from docstore.documents.membership.change import Change, Kind
from docstore.errors import BadConfig, BadRequest, NoQuorum, Unavailable, Undecided
from docstore.machines.events import LinkMade
from docstore.model.address import parse_url
from docstore.model.fields import Fields
from docstore.model.service import Refusal
from docstore.model.settings import text
from docstore.node.members.founding import Founding
from docstore.node.members.gossip_keys import GroupKeys
from docstore.node.members.lookup import Lookup
from docstore.node.members.membership import GossipMembership
from docstore.ownership.configuration import NODE_ID, Configuration, MemberEntry, is_node_id
from docstore.ownership.quorum import majority
from docstore.ownership.voters import decisive_zones
from docstore.reads.refusals import refusal
from docstore.runtime.audit import AUDIT
from docstore.runtime.driver import Driver
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import ChangeGroup

Json = dict[str, Any]

ASK_AGAIN_S = 0.1
PASS_ON_TIMEOUT_S = 5.0
HANG_UP_AFTER_S = 3.0
"""Seconds for which links to former members stay open, so that these learn that they have left."""

KINDS = {
    "AddMemberRequest": Kind.JOIN,
    "ReplaceMemberRequest": Kind.REPLACE,
    "RemoveMemberRequest": Kind.REMOVE,
    "CancelChangeRequest": Kind.CANCEL,
}
_STORE_ID = re.compile(r"[0-9a-f]{32}\Z")
log = structlog.get_logger("docstore.node.members.group")


class GroupConfiguration:
    """Applies and changes the configuration of the group, and connects to its members."""

    def __init__(
        self,
        me: str,
        driver: Driver,
        *,
        founding: Founding,
        lookup: Lookup,
        links: PeerLinks,
        membership: GossipMembership,
        rpc: Rpc,
    ) -> None:
        self._me = me
        self._members = driver.view.members
        self._driver = driver
        self._founding = founding
        self._lookup = lookup
        self._links = links
        self._membership = membership
        self._rpc = rpc
        self.gossip_keys = GroupKeys(me, membership, self._members)
        self._hanging_up: dict[str, asyncio.TimerHandle] = {}
        rpc.serve(ChangeGroup, self._change_here)

    def start(self) -> None:
        self._links.configuration = self._members.configuration.id
        self.use(self._members.configuration)
        for peer in self._members.peers:
            if self._links.is_linked(peer):
                self._driver.feed(LinkMade(peer, self._links.protocol_of(peer)))

    def stop(self) -> None:
        for handle in self._hanging_up.values():
            handle.cancel()

    @property
    def has_left(self) -> bool:
        return self._me not in self._members.configuration.names

    # Configurations

    def use(self, configuration: Configuration) -> None:
        """Connect to the members of a configuration, and disconnect the others."""
        before = self._founding.others()
        self._founding.current = configuration
        others = self._founding.others()
        for peer in others:
            if handle := self._hanging_up.pop(peer, None):
                handle.cancel()
        self._links.end_before(configuration.stored_protocol)
        self._lookup.look_for(others)
        loop = asyncio.get_running_loop()
        for peer in sorted(before.keys() - others.keys()):
            self._hanging_up[peer] = loop.call_later(HANG_UP_AFTER_S, self._hang_up, peer)
        self.view_changed()
        log.info("configuration", id=configuration.id, stage=configuration.stage.value,
                 members=len(configuration.names))  # fmt: skip
        AUDIT.note(
            "configuration used", id=configuration.id, stage=configuration.stage.value,
            members=list(configuration.names), forced=configuration.forced or None,
        )  # fmt: skip
        if self.has_left:
            log.warning("this node is not a member any more; it can be stopped")

    def _hang_up(self, peer: str) -> None:
        self._hanging_up.pop(peer, None)
        self._links.disconnect(peer)

    def view_changed(self) -> None:
        """Pass on to the replica which members are alive by gossip."""
        known = self._founding.others()
        for peer, address in self._membership.peer_addresses().items():
            if peer in known:
                self._links.connect(peer, address)
        members = frozenset(self._members.configuration.names)
        self._driver.feed(ViewChanged(members - self._membership.gone()))

    # Changes

    async def change(self, asked: Mapping[str, Any], timeout_s: float) -> None:
        """Begin a change at the leader; return once its first step is decided.

        Raises BadRequest, NotFound, Conflict (see `reads/refusals.py`), Unavailable (no leader;
        nothing was begun), Undecided (the leader was lost midway).
        """
        _change_of(asked)  # Raises BadRequest before the leader is asked.
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            status, code, detail = await self._change_at_leader(dict(asked), timeout_s)
            if status == 202:
                return
            if status == 504:
                raise Undecided(detail)
            if status != 503:
                raise refusal(code, detail)
            if self._members.lacks_quorum:
                raise NoQuorum(f"{detail}: this node does not hear a majority of the members")
            if asyncio.get_running_loop().time() + ASK_AGAIN_S >= deadline:
                raise Unavailable(detail)
            await asyncio.sleep(ASK_AGAIN_S)

    async def _change_at_leader(self, asked: Json, timeout_s: float) -> tuple[int, str, str]:
        leader = self._members.leader
        if leader is None:
            leader = next((m for m in self._voters() if self._links.is_linked(m)), None)
        if leader is None:
            return 503, "no-leader", "the configuration has no leader now"
        return await self._ask(leader, asked, timeout_s)

    async def _ask(self, leader: str, asked: Json, timeout_s: float) -> tuple[int, str, str]:
        if leader != self._me and not self._links.is_linked(leader):
            return 503, "no-leader", f"node {leader} is not connected"
        try:
            return await self._rpc.call(leader, ChangeGroup(asked), timeout_s)
        except Unavailable as error:
            return 504, "undecided", str(error)

    def _voters(self) -> list[str]:
        members = self._members.configuration.members
        return [each.id for each in members if each.votes and each.id != self._me]

    async def _change_here(self, request: ChangeGroup) -> tuple[int, str, str]:
        """Give the change to this node's register, or forward it once more to the leader it knows.

        A node that does not vote gets no messages from the leader, so it asks any voter.
        """
        leader, asked = self._members.leader, request.asked
        if leader in (None, self._me) or asked.get("passedOn"):
            try:
                change = _change_of(asked)
            except BadRequest as error:  # The forwarding node may run another version.
                return 400, error.code, str(error)
            return await self._driver.change(change)
        return await self._ask(str(leader), {**asked, "passedOn": True}, PASS_ON_TIMEOUT_S)

    # The page

    def page(self, members: list[Json]) -> Json:
        configuration = self._members.configuration
        voters = [each.id for each in configuration.members if each.votes]
        page: Json = {
            "id": configuration.id,
            "stage": configuration.stage.value,
            "clusterId": configuration.cluster_id,
            "slots": configuration.slots,
            "replicationFactor": configuration.replication_factor,
            "voters": voters,
            "quorum": majority(voters),
            "leader": self._members.leader,
            "storedProtocol": configuration.stored_protocol,
            "members": _entries(configuration, members, self._founding.scheme),
        }
        if configuration.forced:
            page["forced"] = configuration.forced
        if configuration.next_members:
            page["change"] = {
                "members": [each.id for each in configuration.next_members],
                "slotsReady": self._driver.view.slots_ready,
            }
        return page


def warnings_of(configuration: Configuration) -> list[str]:
    """Return warnings about zones whose loss stops changes of members, or writes."""
    zones = {each.id: each.zone for each in configuration.members if not each.observes}
    voters = [each.id for each in configuration.members if each.votes]
    of_votes = decisive_zones(zones, voters)
    found = [
        f"{_part_of(zone, zones, voters)} voters: "
        "while those are lost, the members cannot be changed"
        for zone in of_votes
    ]
    # Without a replication factor, every member has a copy of every document.
    if configuration.replication_factor is None:
        found += [
            f"{_part_of(zone, zones, zones)} copies of each document: "
            "while those are lost, none is written"
            for zone in decisive_zones(zones, zones)
            if zone not in of_votes
        ]
    return found


def _part_of(zone: str, zones: Mapping[str, str], of: Collection[str]) -> str:
    count = sum(zones[each] == zone for each in of)
    place = f"zone {zone} holds" if zone else "members without a zone are"
    return f"{place} {count} of the {len(of)}"


def _entries(configuration: Configuration, members: list[Json], scheme: str) -> list[Json]:
    status = {str(each["id"]): each["status"] for each in members}
    now = {each.id: each for each in configuration.members}
    then = {each.id: each for each in configuration.next_members} or now
    found = []
    for name in sorted(now.keys() | then.keys()):
        entry = then.get(name) or now[name]
        role = "observer" if entry.observes else "voter" if entry.votes else "member"
        if name not in then:
            role = "leaving"
        elif name not in now or now[name].lost:
            role = "learner"
        found.append(
            {
                "id": name, "storeId": entry.store_id, "role": role, "zone": entry.zone,
                "address": entry.address.url(scheme),
                "status": status.get(name, "UNKNOWN"),
            }
        )  # fmt: skip
    return found


def _change_of(asked: Mapping[str, Any]) -> Change:
    kind = KINDS.get(str(asked.get("kind")))
    if kind is None:
        raise BadRequest(f"`kind` must be UpdateQuorumRequest or one of {', '.join(KINDS)}")
    node, force = asked.get("id", ""), asked.get("force", False)
    if not isinstance(node, str) or not isinstance(force, bool):
        raise BadRequest("`id` must be the id of a node, and `force` must be true or false")
    if kind in (Kind.REPLACE, Kind.REMOVE) and not node:
        raise BadRequest("`id` must be the id of the leaving member")
    entry = None
    if kind in (Kind.JOIN, Kind.REPLACE):
        entry = _entry_of(asked.get("member"))
    return Change(kind, node, entry, force)


def _entry_of(member: Any) -> MemberEntry:
    """Return the member that a request describes. Raises BadRequest."""
    if not isinstance(member, dict):
        raise BadRequest("`member` must be {id, storeId, address, zone?, observer?}")
    fields = Fields(member, "member.")
    try:
        name, store_id = fields.text("id"), fields.text("storeId")
        address = parse_url(fields.text("address"))
        zone = text({"zone": fields.text("zone", default="")}, "zone", most=ZONE_BYTES_MAX)
        observes = fields.flag("observer", default=False)
        fields.end()
    except Refusal as error:
        raise BadRequest(str(error)) from None
    except ValueError as error:
        raise BadRequest(f"member.address: {error}") from None
    except BadConfig as error:
        raise BadRequest(f"member.{error}") from None
    if not is_node_id(name):
        raise BadRequest(f"`member.id` must be {NODE_ID}; got {name[:80]!r}")
    if not _STORE_ID.match(store_id):
        raise BadRequest(
            "`member.storeId` must be 32 hexadecimal digits, as "
            "/core/management of that node shows them; got "
            f"{store_id[:80]!r}"
        )
    if address.is_wildcard or not address.port:
        raise BadRequest(
            f"`member.address` must be a host and a port that other nodes reach; got {address}"
        )
    return MemberEntry(name, store_id, *address, zone, votes=True, observes=observes)
