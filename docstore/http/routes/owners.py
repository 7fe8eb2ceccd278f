"""The routes of leases, locks, elections, groups and roles."""

from collections.abc import Sequence

from docstore.http.elections import ElectionPages
from docstore.http.group_members import MemberPages
from docstore.http.group_offsets import OffsetPages
from docstore.http.groups import GroupPages
from docstore.http.leases import LeasePages
from docstore.http.routes.documents import CHANGING, DOCUMENTS, LISTED, described_utilities
from docstore.http.routes.route import READ, WRITE, About, Op, Permissions, Route

WAITS = ("Prefer", "Docstore-Timeout-Ms")
SEEN = ("If-None-Match", *WAITS)
_OFFSETS = "/core/groups/{name}/offsets/{topic}"
KEYED = ("Idempotency-Key", "Docstore-Timeout-Ms")
TRANSFERS, EXPIRES, RESETS = (
    frozenset({kind}) for kind in ("TransferRequest", "ExpireRequest", "ResetRequest")
)
"""Kinds of requests that take a turn, a lease or an offset from another process."""


def _turns(path: str, what: str, asked: str) -> Sequence[Route]:
    return (
        Route(path, {
            "GET": Op(f"The {what}s", {200: "Page"}, handler=ElectionPages.get_list, query=LISTED,
                      checks_query=False),
            "POST": Op(f"Make a queue for {what}s of a name", {201: "Document"}, "NewTurns",
                       ElectionPages.create, headers=KEYED),
        }, ElectionPages, DOCUMENTS),
        Route(f"{path}/{{name}}", {
            "GET": Op("Its holder and its queue", {200: "Document", 304: ""},
                      handler=ElectionPages.get, headers=SEEN, checks_query=False),
            "PATCH": Op("Ask for it, give it back, hand it on",
                        {200: "TurnAnswer", 202: "TurnAnswer"}, asked, ElectionPages.patch,
                        headers=("Prefer", *CHANGING), audited=TRANSFERS),
            "DELETE": Op("Delete the queue, which must be empty", {200: "Document"},
                         handler=ElectionPages.delete, headers=CHANGING),
        }, ElectionPages),
    )  # fmt: skip


def _groups(
    path: str, what: str, asked: str, settings: str, shown: Sequence[str]
) -> Sequence[Route]:
    one = f"{path}/{{name}}"
    return (
        Route(path, {
            "GET": Op(f"The {what}s", {200: "Page"}, handler=GroupPages.get_list, query=LISTED,
                      checks_query=False),
            "POST": Op(f"Make a {what}", {201: "Document"}, asked, GroupPages.create,
                       headers=KEYED, audited=True),
        }, GroupPages, DOCUMENTS),
        Route(one, {
            "GET": Op("Its members, and the partitions of each", {200: "Document", 304: ""},
                      handler=GroupPages.get, query=shown, headers=SEEN),
            "PATCH": Op("Change its settings", {200: "Document"}, settings,
                        GroupPages.change, headers=("If-Match", *KEYED), audited=True),
            "DELETE": Op("Delete it, which must have no members", {200: "Document"},
                         handler=GroupPages.delete, headers=("If-Match", *KEYED), audited=True),
        }, GroupPages),
        Route(f"{one}/members", {
            "GET": Op("Its members", {200: "GroupMembers"}, handler=MemberPages.show,
                      headers=WAITS),
            "POST": Op("Join it", {201: "Joined"}, "NewMember", MemberPages.join, headers=WAITS,
                       audited=True),
        }, MemberPages),
        Route(f"{one}/members/{{member}}", {
            "PATCH": Op("A heartbeat, or a wait for news", {200: "MemberAnswer"}, "MemberRequest",
                        MemberPages.hear, headers=WAITS),
            "DELETE": Op("Leave it", {200: "MemberAnswer"}, handler=MemberPages.leave,
                         query=("drain", "force"), headers=WAITS, audited=True),
        }, MemberPages),
    )  # fmt: skip


OWNERS: About = About(
    "owners", "Rights to act: leases, locks, elections, groups that share topics, and roles.",
    (
        Route("/core/leases", {
            "GET": Op("The leases", {200: "Page"}, handler=LeasePages.get_list, query=LISTED,
                      checks_query=False),
            "POST": Op("Take a lease", {200: "Document", 201: "Document"}, "NewLease",
                       LeasePages.create, headers=KEYED),
        }, LeasePages, DOCUMENTS),
        Route("/core/leases/keep-alive", {
            "POST": Op("Keep many alive", {200: "KeptAlive"}, "KeepAlive",
                       LeasePages.keep_all_alive, headers=WAITS),
        }, LeasePages, Permissions(READ, WRITE, at="/core/leases")),
        Route("/core/leases/{id}", {
            "GET": Op("A lease, and how long it has left", {200: "Document", 304: ""},
                      handler=LeasePages.get, headers=SEEN, checks_query=False),
            "PATCH": Op("Keep it alive, or attach something to it", {200: "LeaseAnswer"},
                        "LeaseRequest", LeasePages.patch, headers=("Prefer", *CHANGING),
                        audited=EXPIRES),
            "DELETE": Op("End it", {200: "Document"}, handler=LeasePages.end, headers=CHANGING),
        }, LeasePages),
        *_turns("/core/elections", "election", "CampaignRequest"),
        *_turns("/core/locks", "lock", "LockRequest"),
        *_groups("/core/groups", "group", "NewGroup", "GroupSettings", ()),
        Route("/core/groups/{name}/offsets", {
            "GET": Op("How far it has come", {200: "OffsetList"}, handler=OffsetPages.show_all,
                      headers=WAITS),
            "POST": Op("Note how far a member has come",
                       {200: "OffsetResults", 409: "OffsetResults"}, "Offsets",
                       OffsetPages.commit, headers=WAITS),
            "PATCH": Op("Set the offsets of partitions anew, or show what they would be",
                        {200: "OffsetMoves"}, "OffsetsReset", OffsetPages.reset, headers=WAITS,
                        audited=RESETS),
        }, OffsetPages),
        Route("/core/groups/{name}/offsets/{topic}/{partition}", {
            "GET": Op("How far it has come in a partition", {200: "Document"},
                      handler=OffsetPages.show, headers=WAITS),
            "PATCH": Op("Claim it under a token, or set it anew", {200: "Document"},
                        "OffsetRequest", OffsetPages.patch, headers=WAITS, audited=RESETS),
        }, OffsetPages),
        Route(_OFFSETS, {
            "GET": Op("How far it has come in a topic", {200: "Page"}, query=LISTED),
        }),
        *described_utilities(_OFFSETS, f"{_OFFSETS}/{{partition}}"),
        *_groups("/core/roles", "role", "NewRoles", "RoleSettings", ("role",)),
    ),
)  # fmt: skip
