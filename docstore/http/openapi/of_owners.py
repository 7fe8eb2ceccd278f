"""What is asked of leases, locks, elections, groups and roles: what lives while it is heard."""

from collections.abc import Mapping

from docstore.http.openapi.of_documents import CHANGING, LISTED, utilities
from docstore.http.openapi.operation import About, Op

WAITS = ("Prefer", "Docstore-Timeout-Ms")
SEEN = ("If-None-Match", *WAITS)
_OFFSETS = "/core/groups/{name}/offsets/{topic}"
KEYED = ("Idempotency-Key", "Docstore-Timeout-Ms")


def _turns(path: str, what: str) -> dict[str, Mapping[str, Op]]:
    return {
        path: {
            "GET": Op(f"The {what}s", {200: "Page"}, query=LISTED),
            "POST": Op(f"Make a queue for {what}s of a name", {201: "Document"}, "NewTurns",
                       headers=KEYED),
        },
        f"{path}/{{name}}": {
            "GET": Op("Who holds it, and who waits", {200: "Document", 304: ""}, headers=SEEN),
            "PATCH": Op("Ask for it, give it back, hand it on",
                        {200: "Object", 202: "Object"}, "TurnRequest",
                        headers=("Prefer", *CHANGING)),
            "DELETE": Op("Delete the queue, which must be empty", {200: "Document"},
                         headers=CHANGING),
        },
    }  # fmt: skip


def _groups(path: str, what: str, asked: str) -> dict[str, Mapping[str, Op]]:
    one = f"{path}/{{name}}"
    return {
        path: {
            "GET": Op(f"The {what}s", {200: "Page"}, query=LISTED),
            "POST": Op(f"Make a {what}", {201: "Document"}, asked, headers=KEYED),
        },
        one: {
            "GET": Op("Its members, and who has which partition", {200: "Document", 304: ""},
                      query=("role",), headers=SEEN),
            "PATCH": Op("Change its settings", {200: "Document"}, "GroupSettings",
                        headers=("If-Match", *KEYED)),
            "DELETE": Op("Delete it, which must have no members", {200: "Document"},
                         headers=("If-Match", *KEYED)),
        },
        f"{one}/members": {
            "GET": Op("Its members", {200: "Object"}, headers=WAITS),
            "POST": Op("Join it", {201: "Object"}, "NewMember", headers=WAITS),
        },
        f"{one}/members/{{member}}": {
            "PATCH": Op("A heartbeat, or a wait for news", {200: "Object"}, "MemberRequest",
                        headers=WAITS),
            "DELETE": Op("Leave it", {200: "Object"}, query=("drain", "force"), headers=WAITS),
        },
    }  # fmt: skip


OWNERS = About(
    "owners", "Who may act: leases, locks, elections, groups that share topics, and roles.",
    {
        "/core/leases": {
            "GET": Op("The leases", {200: "Page"}, query=LISTED),
            "POST": Op("Take a lease", {200: "Document", 201: "Document"}, "NewLease",
                       headers=KEYED),
        },
        "/core/leases/keep-alive": {
            "POST": Op("Keep many alive", {200: "Object"}, "KeepAlive", headers=WAITS),
        },
        "/core/leases/{id}": {
            "GET": Op("A lease, and how long it has left", {200: "Document", 304: ""},
                      headers=SEEN),
            "PATCH": Op("Keep it alive, or attach something to it", {200: "Object"},
                        "LeaseRequest", headers=("Prefer", *CHANGING)),
            "DELETE": Op("End it", {200: "Document"}, headers=CHANGING),
        },
        **_turns("/core/elections", "election"),
        **_turns("/core/locks", "lock"),
        **_groups("/core/groups", "group", "NewGroup"),
        "/core/groups/{name}/offsets": {
            "GET": Op("How far it has come", {200: "Object"}, headers=WAITS),
            "POST": Op("Note how far a member has come", {200: "Object"}, "Offsets",
                       headers=WAITS),
        },
        "/core/groups/{name}/offsets/{topic}/{partition}": {
            "GET": Op("How far it has come in a partition", {200: "Object"}, headers=WAITS),
            "PATCH": Op("Claim it under a token, or set it anew", {200: "Object"},
                        "OffsetRequest", headers=WAITS),
        },
        _OFFSETS: {"GET": Op("How far it has come in a topic", {200: "Page"}, query=LISTED)},
        **utilities(_OFFSETS, f"{_OFFSETS}/{{partition}}"),
        **_groups("/core/roles", "role", "NewRoles"),
    },
)  # fmt: skip
