"""What is asked of a node and its group."""

from docstore.http.openapi.operation import EVENTS_TYPE, About, Op

CACHED = ("If-None-Match",)
WAITS = ("Docstore-Timeout-Ms",)

NODES = About(
    "nodes", "A node and its group: what they are, how they are, and what operators ask of them.",
    {
        "/": {"GET": Op("What this is, and where its pages are", {200: "Entry"})},
        "/health/live": {"GET": Op("Whether this process answers", {200: "Object"})},
        "/health/ready": {
            "GET": Op(
                "Whether this node can serve", {200: "Object"},
                tells="503 says why it cannot.",
            ),
        },
        "/metrics": {"GET": Op("Numbers for Prometheus", {200: "text/plain"})},
        "/core/management": {
            "GET": Op("This node", {200: "Node"}),
            "PATCH": Op(
                "Ask something of this node", {200: "Object", 202: "Object"}, "NodeRequest",
                headers=("Prefer", *WAITS),
                tells="A resynchronisation, an end to history, another level of logging.",
            ),
            "DELETE": Op("Have this node finish what it does, and stop", {202: "Object"}),
        },
        "/core/management/synch": {
            "GET": Op(
                "How far a resynchronisation is", {200: "Object"}, query=("id",), headers=WAITS,
                tells="Any node says it.",
            ),
        },
        "/core/management/digests": {
            "GET": Op("What each node has in each slot, in short", {200: "Object"}, headers=WAITS),
        },
        "/core/management/trace": {
            "GET": Op(
                "The last steps of this node's machines", {200: "Steps"},
                query=("slot", "link", "partition", "after@steps", "limit@steps"),
                tells="Of a slot, a document or a partition, or of all.",
            ),
        },
        "/core/access": {
            "GET": Op(
                "Who asks, and what he may do", {200: "User"},
                tells="404 where nobody is asked who he is.",
            ),
        },
        "/core/access/users/{user}": {
            "GET": Op(
                "What a user may do", {200: "User"},
                tells="Of oneself; of others for who has `admin` at `/`.",
            ),
        },
        "/core/node-groups/default": {
            "GET": Op("The members and their configuration", {200: "Group"}),
            "PATCH": Op(
                "Change the members", {202: "Object"}, "GroupRequest", headers=WAITS,
                tells="409 while another change is under way. `JoinPeerRequest` is for a node that "
                "waits to be taken in.",
            ),
        },
        "/core/node-groups/default/available": {
            "GET": Op(
                "Whether the members agree and are connected", {200: "Object"},
                tells="503 while they do not.",
            ),
        },
        "/core/node-selectors/{selector}": {
            "GET": Op("The slots, their owners and their copies", {200: "Selector"}),
        },
        "/core/node-selectors/{selector}/forwarding": {
            "GET": Op(
                "What a node says of itself, through another one", {200: "Object"},
                query=("target", "path@forwarded", "peer", "link@forwarding", "key"),
                headers=WAITS,
            ),
        },
        "/core/openapi.json": {
            "GET": Op(
                "This description", {200: "Object"},
                tells="With the factories that whoever asks may read.",
            ),
        },
        "/core/docs": {
            "GET": Op("This description, for people", {200: "text/html", 304: ""}, headers=CACHED),
        },
        "/core/ui": {"GET": Op("The console", {200: "text/html", 304: ""}, headers=CACHED)},
        "/core/ui/{file}": {
            "GET": Op("A file of the console", {200: "text/javascript", 304: ""}, headers=CACHED),
        },
    },
)  # fmt: skip

CHANGES = About(
    "changes", "What changes, as it is decided: nothing is left out, and nothing is taken back.",
    {
        "/core/changes": {
            "GET": Op(
                "Changes at a path and below it, after a token",
                {200: EVENTS_TYPE},
                query=("prefix", "since", "where", "limit@changes"),
                headers=("Prefer", "Last-Event-ID", *WAITS),
                tells="`Accept: text/event-stream` goes on until the client goes; else it is NDJSON"
                ", and its last line has `next`.",
                has_head=False,
            ),
            "POST": Op(
                "The same, with a token that is too long for a URL", {200: EVENTS_TYPE},
                "ChangesRequest", headers=("Prefer", *WAITS),
            ),
        },
    },
)  # fmt: skip

SCANS = About(
    "scans", "Whole factories at one cut, for jobs that read all of them.",
    {
        "/core/spark/plan": {
            "GET": Op("A cut, and who has which slots", {200: "Object"},
                      query=("asOf", "path", "prefix"), headers=WAITS),
        },
        "/core/spark/layout": {"GET": Op("Who has which slots", {200: "Object"})},
        "/core/spark/high": {
            "GET": Op("How far each slot has come", {200: "Object"}, query=("prefix",),
                      headers=WAITS),
        },
        "/core/spark/scan": {
            "POST": Op(
                "A snapshot of slots that this node has", {200: "application/x-ndjson"},
                "ScanRequest",
                tells="Arrow or NDJSON by `Accept`, and behind it a line that says that it is "
                "complete. 421: the slot is elsewhere; 425: this copy is behind.",
            ),
        },
        "/core/backup/rows": {
            "POST": Op(
                "Rows as they lie on this node's disk", {200: "application/msgpack"},
                "StoredRowsRequest", tells="For `docstore backup`.",
            ),
        },
        "/core/spark/changes": {
            "POST": Op("A stretch of the logs", {200: "application/x-ndjson"}, "StretchRequest"),
        },
        "/core/spark/staging": {
            "GET": Op("The parts of jobs that wait on this node", {200: "Object"}, has_head=False),
        },
        "/core/spark/staging/{job}/{part}": {
            "PUT": Op(
                "Keep lines of a bulk request on this node's disk", {201: "Object"},
                ("application/x-ndjson",), tells="A day later they are gone.",
            ),
            "POST": Op("Do what the lines say", {200: "application/x-ndjson"}),
            "DELETE": Op("Forget them", {200: "Object"}),
        },
    },
)  # fmt: skip
