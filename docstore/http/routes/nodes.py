"""The routes of a node and its group, of changes, and of bulk reads."""

from collections.abc import Sequence

from docstore.http.changes import EVENTS_TYPE, NDJSON_TYPE, ChangePages
from docstore.http.core_pages import CorePages
from docstore.http.representation import MSGPACK_TYPE
from docstore.http.routes.documents import LINES, RESULTS
from docstore.http.routes.route import (
    ADMIN,
    ANYBODY,
    INSIDE,
    OPEN,
    READ,
    WRITE,
    About,
    Body,
    Op,
    Permissions,
    Route,
)
from docstore.http.scans import ARROW_TYPE, ScanPages
from docstore.http.selectors import SelectorPages
from docstore.http.staging import StagedParts
from docstore.http.stored_rows import StoredRows
from docstore.http.users import UserPages

CACHED = ("If-None-Match",)
WAITS = ("Docstore-Timeout-Ms",)
HTML = (Body("Html", "text/html"),)
FILES = (
    Body("Script", "text/javascript"), Body("Style", "text/css"), Body("Image", "image/svg+xml"),
    Body("License", "text/plain"),
)  # fmt: skip
FEED = (Body("Change", NDJSON_TYPE), Body("Change", EVENTS_TYPE))
ROWS = (Body("Row", NDJSON_TYPE), Body("ArrowStream", ARROW_TYPE))

_OTHERS = Permissions(ADMIN, ADMIN)
AREAS: Sequence[Route] = (
    Route("/core", {}, permissions=_OTHERS),
    Route("/mgmt", {}, permissions=_OTHERS),
    Route("/health", {}, permissions=_OTHERS),
    Route("/core/node-groups", {}, permissions=Permissions(ANYBODY)),
    Route("/core/node-selectors", {}, permissions=Permissions(ANYBODY)),
)
"""Permissions at paths without a route of their own, so that a forgotten route is closed."""

NODES: About = About(
    "nodes",
    "A node and its group: what they are, how they are, and what operators ask of them.",
    (
        Route("/", {
            "GET": Op("This node, and where its pages are", {200: "Entry", 303: ""},
                      tells="`Accept: text/html` leads to the console.",
                      handler=CorePages.entry, checks_query=False),
        }, CorePages),
        Route("/health/live", {
            "GET": Op("Whether this process answers", {200: "Live"}, handler=CorePages.live,
                      checks_query=False),
        }, CorePages, Permissions(OPEN)),
        Route("/health/ready", {
            "GET": Op("Whether this node can serve", {200: "Ready"},
                      tells="503 says why it cannot.", handler=CorePages.ready, checks_query=False),
        }, CorePages, Permissions(OPEN)),
        Route("/metrics", {
            "GET": Op("Numbers for Prometheus", {200: [Body("Metrics", "text/plain")]},
                      handler=CorePages.metrics_text,
                      checks_query=False),
        }, CorePages, Permissions(READ)),
        Route("/core/management", {
            "GET": Op("This node", {200: "Node"}, handler=CorePages.management),
            "PATCH": Op("Ask something of this node", {200: "NodeAnswer", 202: "NodeAnswer"},
                        "NodeRequest",
                        headers=("Prefer", *WAITS),
                        tells="A resynchronisation, an end to history, another level of logging.",
                        handler=CorePages.asked_to),
            "DELETE": Op("Have this node finish what it does, and stop", {202: "Draining"},
                         handler=CorePages.drain),
        }, CorePages, Permissions(READ)),
        Route("/core/management/synch", {
            "GET": Op("How far a resynchronisation is", {200: "Resynchronisation"}, query=("id",),
                      headers=WAITS, tells="Any node says it.", handler=CorePages.synch),
        }, CorePages),
        Route("/core/management/digests", {
            "GET": Op("Digests of each slot on each node", {200: "Digests"}, headers=WAITS,
                      handler=CorePages.digests),
        }, CorePages),
        Route("/core/management/trace", {
            "GET": Op("The last steps of this node's machines", {200: "Steps"},
                      query=("slot", "link", "partition", "after@steps", "limit@steps"),
                      tells="Steps about a slot, a document or a partition, or all.",
                      handler=CorePages.trace),
        }, CorePages, Permissions(ADMIN)),
        Route("/core/access", {
            "GET": Op("The caller, and its permissions", {200: "User"},
                      tells="404 where the node has no access file.", handler=UserPages.oneself),
        }, UserPages, Permissions(ANYBODY)),
        Route("/core/access/users/{user}", {
            "GET": Op("Permissions of a user", {200: "User"},
                      tells="A user may read its own; others need `admin` at `/`.",
                      handler=UserPages.user),
        }, UserPages, Permissions(INSIDE)),
        Route("/core/node-groups/default", {
            "GET": Op("The members and their configuration", {200: "Group"},
                      handler=CorePages.node_group),
            "PATCH": Op("Change the members", {202: "GroupChange"}, "GroupRequest", headers=WAITS,
                        tells="409 while another change is under way. `JoinPeerRequest` is for a "
                        "node that waits to be taken in.", handler=CorePages.change_group),
        }, CorePages),
        Route("/core/node-groups/default/available", {
            "GET": Op("Whether the members agree and are connected", {200: "Available"},
                      tells="503 while they do not.", handler=CorePages.available),
        }, CorePages),
        Route("/core/node-groups/default/gossip-keys", {
            "GET": Op("The keys that encrypt gossip, by member", {200: "GossipKeys"},
                      tells="Identifiers only. 409 where gossip is not encrypted.",
                      handler=CorePages.gossip_keys),
            "PATCH": Op("Install, use or remove a key on all members", {200: "GossipKeys"},
                        "GossipKeyRequest",
                        tells="409 names the members that are down or cannot take the step, and "
                        "why. `InstallKeyRequest` without `id` makes a new key.",
                        handler=CorePages.change_gossip_keys),
        }, CorePages, Permissions(READ)),
        Route("/core/node-selectors/{selector}", {
            "GET": Op("The slots, their owners and their copies", {200: "Selector"},
                      handler=SelectorPages.selector),
        }, SelectorPages),
        Route("/core/node-selectors/{selector}/forwarding", {
            "GET": Op("A page of a node, through another one", {200: "Forwarded"},
                      query=("target", "path@forwarded", "peer", "link@forwarding", "key"),
                      headers=WAITS, handler=SelectorPages.forwarded),
        }, SelectorPages, Permissions(INSIDE)),
        Route("/core/openapi.json", {
            "GET": Op("This description", {200: "Description", 304: ""},
                      tells="With the factories that the caller may read.", headers=CACHED,
                      handler=CorePages.openapi),
        }, CorePages, Permissions(ANYBODY)),
        Route("/core/docs", {
            "GET": Op("This description, for people", {200: HTML, 304: ""}, headers=CACHED,
                      handler=CorePages.console, checks_query=False),
        }, CorePages, Permissions(OPEN)),
        Route("/core/ui", {
            "GET": Op("The console", {200: HTML, 304: ""}, headers=CACHED,
                      handler=CorePages.console, checks_query=False),
        }, CorePages, Permissions(OPEN)),
        Route("/core/ui/{file}", {
            "GET": Op("A file of the console", {200: FILES, 304: ""}, headers=CACHED,
                      handler=CorePages.console, checks_query=False),
        }, CorePages),
    ),
)  # fmt: skip

CHANGES: About = About(
    "changes",
    "Changes as they are decided: none is left out, and none is taken back.",
    (
        Route("/core/changes", {
            "GET": Op("Changes at a path and below it, after a token", {200: FEED},
                      query=("prefix@changes", "since", "where", "before", "limit@changes"),
                      headers=("Prefer", "Last-Event-ID", *WAITS),
                      tells="`Accept: text/event-stream` goes on until the client goes; else it "
                      "is NDJSON, and its last line has `next`.", has_head=False,
                      handler=ChangePages.serve, checks_query=False),
            "POST": Op("The same, with a token that is too long for a URL", {200: FEED},
                       "ChangesRequest", headers=("Prefer", *WAITS), handler=ChangePages.serve,
                       checks_query=False),
        }, ChangePages, Permissions(INSIDE, INSIDE)),
    ),
)  # fmt: skip

SCANS: About = About(
    "scans",
    "Whole factories at one cut, for jobs that read all of them.",
    (
        Route("/core/spark/plan", {
            "GET": Op("A cut, and which node has which slots", {200: "Plan"},
                      query=("asOf", "path", "prefix"), headers=WAITS, handler=ScanPages.plan),
        }, ScanPages, Permissions(INSIDE)),
        Route("/core/spark/layout", {
            "GET": Op("The nodes of each slot", {200: "Layout"}, handler=ScanPages.layout),
        }, ScanPages, Permissions(ANYBODY)),
        Route("/core/spark/high", {
            "GET": Op("How far each slot has come", {200: "High"}, query=("prefix",),
                      headers=WAITS, handler=ScanPages.high),
        }, ScanPages, Permissions(INSIDE)),
        Route("/core/spark/scan", {
            "POST": Op("A snapshot of slots that this node has", {200: ROWS},
                       "ScanRequest",
                       tells="Arrow or NDJSON by `Accept`, and behind it a line that says that "
                       "it is complete. 421: the slot is elsewhere; 425: this copy is behind.",
                       handler=ScanPages.scan),
        }, ScanPages, Permissions(ANYBODY, INSIDE)),
        Route("/core/backup/rows", {
            "POST": Op("Rows as they lie on this node's disk",
                       {200: [Body("StoredRows", MSGPACK_TYPE)]}, "StoredRowsRequest",
                       tells="For `docstore backup`.", handler=StoredRows.serve),
        }, StoredRows, Permissions(ADMIN, READ, at="/")),
        Route("/core/spark/changes", {
            "POST": Op("A stretch of the logs", {200: ROWS}, "StretchRequest",
                       handler=ScanPages.scan),
        }, ScanPages, Permissions(ANYBODY, INSIDE)),
        Route("/core/spark/staging", {
            "GET": Op("The parts of jobs that wait on this node", {200: "StagedParts"},
                      has_head=False, handler=StagedParts.get_list),
        }, StagedParts, Permissions(READ, WRITE, at="/core/spark/staging"), is_literal=True),
        Route("/core/spark/staging/{job}/{part}", {
            "PUT": Op("Keep lines of a bulk request on this node's disk", {201: "Staged"},
                      LINES[:1], tells="A day later they are gone.",
                      handler=StagedParts.keep, receives=False),
            "POST": Op("Do what the lines say", {200: RESULTS},
                       handler=StagedParts.do, receives=False),
            "DELETE": Op("Forget them", {200: "Removed"}, handler=StagedParts.remove,
                         receives=False),
        }, StagedParts, is_literal=True),
    ),
)  # fmt: skip
