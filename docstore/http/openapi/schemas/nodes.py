"""Schemas of the pages of a node and its group."""

from docstore.http.openapi.schemas.shapes import (
    FLAG,
    LARGEST,
    MAYBE_TEXT,
    NAME,
    PATH,
    REAL,
    TEXT,
    THING,
    WHOLE,
    Schemas,
    asked,
    either,
    many,
    of,
    one,
    only,
    shown,
    text,
    told,
    whole,
)
from docstore.http.openapi.schemas.shared import SLOTS_A_SECOND, stored

_MEMBER = only(
    "", "id storeId address",
    id=NAME, storeId=text("^[0-9a-f]{32}$"), address=told(text(form="uri"), "Its HTTP address"),
    zone=text(most=128), observer=FLAG,
)  # fmt: skip
_NEW = {
    "id": "n4",
    "storeId": "9f86d081884c7d659a2feaa0c55ad015",
    "address": "http://10.0.0.4:8000",
}
_PAST_US = told(whole(1, LARGEST), "Microseconds since 1970, in the past")
_KEY = told(text("^[0-9a-f]{8}$"), "The identifier of a key")

NODES: Schemas = {
    "Entry": shown(
        of(documentSelfLink=TEXT, kind=TEXT, name=TEXT, version=TEXT, id=TEXT, links=THING),
        {"documentSelfLink": "/", "kind": "EntryPoint", "name": "docstore", "version": "0.1.0",
         "id": "n1", "links": {"/core/ui": "the console"}},
    ),
    "Live": shown(of(live=FLAG), {"live": True}),
    "Ready": shown(of(ready=FLAG), {"ready": True}),
    "Metrics": shown(TEXT, "# TYPE docstore_http_requests_total counter\n"
                           'docstore_http_requests_total{method="GET",status="200"} 12\n'),
    "Html": shown(TEXT, "<!doctype html>\n<title>docstore</title>\n"),
    "Script": shown(TEXT, "export const answer = 42;\n"),
    "Style": shown(TEXT, "body { margin: 0 }\n"),
    "Image": shown(TEXT, '<svg xmlns="http://www.w3.org/2000/svg"/>\n'),
    "License": shown(TEXT, "The MIT License (MIT)\n"),
    "Description": shown(
        of("This description.", "openapi info paths", openapi=TEXT, info=THING, paths=THING,
           components=THING),
        {"openapi": "3.1.0", "info": {"title": "docstore", "version": "0.1.0"}, "paths": {}},
    ),
    "Node": shown(
        of(
            id=TEXT, version=TEXT, protocol=WHOLE, ready=FLAG, reason=TEXT, addresses=THING,
            zone=TEXT, limits=THING, slots=THING, replicationLag=THING, disk=THING,
            timeMicros=WHOLE, plainText=many(TEXT), openSecrets=many(TEXT), logLevel=TEXT,
            eventLoopLagMs=REAL, requestsInFlight=WHOLE, partitions=THING,
        ),
        {"id": "n1", "version": "0.1.0", "protocol": 1, "ready": True, "reason": "", "zone": "",
         "addresses": {"http": "http://10.0.0.1:8000"}, "logLevel": "info"},
    ),
    "NodeRequest": shown(
        either(
            asked("SynchronizeRequest", documentSelfLink=PATH, slotsPerSecond=SLOTS_A_SECOND),
            asked("SynchronizeControlRequest", "id action", id=TEXT,
                  action=one("pause", "resume", "cancel")),
            asked("CompactRequest", "beforeMicros", beforeMicros=_PAST_US),
            asked("LogLevelRequest", "level", level=one("debug", "info", "warning", "error")),
        ),
        {"kind": "LogLevelRequest", "level": "debug"},
    ),
    "NodeAnswer": shown(
        of("The state of what was begun, or the level that is set.", id=TEXT, state=TEXT,
           logLevel=TEXT),
        {"logLevel": "debug"},
    ),
    "Draining": shown(of(state=TEXT), {"state": "DRAINING"}),
    "Digests": shown(
        {"type": "object", "description": "Node -> slot -> end of its log, links, digest.",
         "additionalProperties": THING},
        {"n1": {"17": [120, 9, "8f14e45fceea167a"]}, "n2": {"17": [120, 9, "8f14e45fceea167a"]}},
    ),
    "Steps": shown(
        of(steps=many(of(number=WHOLE, machine=TEXT, atSeconds=REAL, time=TEXT, event=TEXT,
                         effects=many(TEXT), traces=many(TEXT)))),
        {"steps": [{"number": 7, "machine": "slot 17", "atSeconds": 12.5,
                    "time": "2026-11-18T10:00:00Z", "event": "Tick", "effects": [], "traces": []}]},
    ),
    "Group": shown(
        of(
            members=many(of(id=TEXT, status=one("ALIVE", "SUSPECT", "DEAD", "LEFT"), address=TEXT,
                            zone=TEXT, incarnation=WHOLE, secondsSinceChange=REAL)),
            configuration=of(id=WHOLE, stage=TEXT, slots=WHOLE, voters=many(TEXT), quorum=WHOLE,
                             leader=MAYBE_TEXT, members=many(THING)),
            convergence=one("CONVERGED", "CONVERGING"), warnings=many(TEXT),
        ),
        {"members": [{"id": "n1", "status": "ALIVE", "address": "http://10.0.0.1:8000"}],
         "convergence": "CONVERGED"},
    ),
    "GroupRequest": shown(
        either(
            asked("AddMemberRequest", "member", member=_MEMBER),
            asked("ReplaceMemberRequest", "id member", id=NAME, member=_MEMBER),
            asked("RemoveMemberRequest", "id", id=NAME, force=FLAG),
            asked("CancelChangeRequest"),
            asked("JoinPeerRequest", "memberGroupReference",
                  memberGroupReference=told(text(form="uri"), "Address of a member")),
        ),
        {"kind": "AddMemberRequest", "member": _NEW},
    ),
    "GroupChange": shown(of("The change that has begun."), {"kind": "AddMemberRequest"}),
    "GossipKeys": shown(
        of(key=TEXT, members=many(of(id=TEXT, keys=many(TEXT), problem=TEXT))),
        {"members": [{"id": "n1", "keys": ["8f14e45f"], "problem": ""}]},
    ),
    "GossipKeyRequest": shown(
        either(
            asked("InstallKeyRequest", id=_KEY), asked("UseKeyRequest", "id", id=_KEY),
            asked("RemoveKeyRequest", "id", id=_KEY),
        ),
        {"kind": "UseKeyRequest", "id": "8f14e45f"},
    ),
    "User": shown(
        of(documentSelfLink=TEXT, name=TEXT, grants=THING),
        {"documentSelfLink": "/core/access/users/ann", "name": "ann",
         "grants": {"/films": "write"}},
    ),
    "Selector": shown(
        of(replicationFactor=WHOLE, slots=WHOLE, shares=THING,
           table=many(of(slot=WHOLE, owner=MAYBE_TEXT, replicas=many(TEXT)))),
        {"replicationFactor": 3, "slots": 64, "shares": {"n1": 22, "n2": 21, "n3": 21},
         "table": [{"slot": 0, "owner": "n1", "replicas": ["n1", "n2", "n3"]}]},
    ),
    "Forwarded": shown(
        of("The page of a node; with ALL the pages by the ids of the nodes.", kind=TEXT,
           jsonResponses=THING, failures=THING),
        {"kind": "NodeGroupBroadcastResponse", "path": "/core/management",
         "jsonResponses": {"n1": {"id": "n1"}}, "failures": {}},
    ),
    "Change": shown(
        of(
            "A version of a document as it was decided; or, as the last line, the end of the "
            "answer: `complete`, `rows` and `next`, the token with which the next request goes on.",
            documentSelfLink=TEXT, documentVersion=WHOLE, documentUpdateAction=TEXT,
            documentUpdateTimeMicros=WHOLE, body=THING, complete=FLAG, rows=WHOLE, next=TEXT,
            slotsUnheard=WHOLE,
        ),
        {**stored("/films/4", "films", 3, "PUT"), "body": {"title": "Solaris"}},
    ),
}  # fmt: skip
