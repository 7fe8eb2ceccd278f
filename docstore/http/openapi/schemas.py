"""Schemas of bodies, by name: requests in full, answers as far as clients need them.

Answers may get further members later, so their schemas allow any.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
MAYBE: Json = {"type": ["integer", "null"]}
REAL: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}
ANY: Json = {}
THING: Json = {"type": "object"}


def of(told: str = "", needs: str = "", /, **members: Any) -> Json:
    """Return the schema of an object. needs: its required members, separated by blanks."""
    schema: Json = {"type": "object"}
    if told:
        schema["description"] = told
    if members:
        schema["properties"] = members
    if needs:
        schema["required"] = needs.split()
    return schema


def many(items: Json) -> Json:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def one(*values: str) -> Json:
    """Return the schema of a choice of strings."""
    return {"enum": list(values)}


def asked(kind: str, needs: str = "", /, **members: Any) -> Json:
    """Return the schema of a request of a kind."""
    return of("", f"kind {needs}".strip(), kind={"const": kind}, **members)


MEMBER = of("", "id storeId address", id=TEXT, storeId=TEXT, address=TEXT, zone=TEXT, observer=FLAG)
CONDITION = {"where": TEXT, "filter": TEXT}
CUT = many(many(WHOLE))
DOCUMENT = {
    "documentSelfLink": TEXT, "documentKind": TEXT, "documentVersion": WHOLE,
    "documentEpoch": WHOLE, "documentOwner": TEXT, "documentUpdateTimeMicros": WHOLE,
    "documentUpdateAction": one("POST", "PUT", "PATCH", "DELETE", "RESOLVE"),
    "documentSignature": TEXT, "documentExpirationTimeMicros": WHOLE, "documentLeaseLink": TEXT,
}  # fmt: skip
PARTITION = {
    "partition": WHOLE, "leader": TEXT, "epoch": WHOLE, "resolution": TEXT, "replicas": many(TEXT),
    "lrs": {**many(many(TEXT)), "description": "The live replica set: nodes, and their copies"},
    "minInSync": WHOLE, "leo": MAYBE, "hw": MAYBE, "base": MAYBE,
    "followers": many(THING),
}  # fmt: skip
RETENTION = of(ms=WHOLE, bytes=WHOLE)
SESSION = {
    "mode": one("exclusive", "nonExclusive"), "sessionMs": WHOLE, "heartbeatMs": WHOLE,
    "windowMs": WHOLE, "revokeMs": WHOLE,
}  # fmt: skip

SHARED: Mapping[str, Json] = {
    "Object": of("Members by their names."),
    "Problem": of(
        "An error (RFC 9457). `outcome` says whether anything may have happened.",
        "status errorCode outcome",
        type=TEXT, title=TEXT, status=WHOLE, detail=TEXT, instance=TEXT, errorCode=TEXT,
        outcome=one("not_applied", "unknown"), message=TEXT, statusCode=WHOLE, documentKind=TEXT,
    ),
    "Document": of("The members that a client wrote, followed by those of the store.", **DOCUMENT),
    "Page": of(
        "Documents, or groups of them, and where the next ones are.",
        documentLinks=many(TEXT), documents=THING, documentCount=WHOLE, nextPageLink=TEXT,
        groups=many(THING),
    ),
    "Versions": of(versions=many({"$ref": "#/components/schemas/Document"}), nextPageLink=TEXT),
    "Explanation": of(
        slot=WHOLE, slots=WHOLE, owner={"type": ["string", "null"]}, preferredOwner=TEXT,
        takesOverNext={"type": ["string", "null"]}, ranking=many(of(id=TEXT, distance=TEXT)),
        replicas=many(THING),
    ),
}  # fmt: skip

NODES: Mapping[str, Json] = {
    "Entry": of(name=TEXT, version=TEXT, id=TEXT, links=THING),
    "Node": of(
        id=TEXT, version=TEXT, protocol=WHOLE, ready=FLAG, reason=TEXT, addresses=THING, zone=TEXT,
        limits=THING, slots=THING, replicationLag=THING, disk=THING, timeMicros=WHOLE,
        plainText=many(TEXT), openSecrets=many(TEXT), logLevel=TEXT, eventLoopLagMs=REAL,
        requestsInFlight=WHOLE, partitions=THING,
    ),
    "NodeRequest": {"oneOf": [
        asked("SynchronizeRequest", documentSelfLink=TEXT, slotsPerSecond=REAL),
        asked("SynchronizeControlRequest", "id action", id=TEXT,
              action=one("pause", "resume", "cancel")),
        asked("CompactRequest", "beforeMicros", beforeMicros=WHOLE),
        asked("LogLevelRequest", "level", level=one("debug", "info", "warning", "error")),
    ]},
    "Steps": of(steps=many(of(number=WHOLE, machine=TEXT, atSeconds=REAL, time=TEXT, event=TEXT,
                              effects=many(TEXT), traces=many(TEXT)))),
    "Group": of(
        members=many(of(id=TEXT, status=one("ALIVE", "SUSPECT", "DEAD", "LEFT"), address=TEXT,
                        zone=TEXT, incarnation=WHOLE, secondsSinceChange=REAL)),
        configuration=of(id=WHOLE, stage=TEXT, slots=WHOLE, voters=many(TEXT), quorum=WHOLE,
                         leader={"type": ["string", "null"]}, members=many(THING)),
        convergence=one("CONVERGED", "CONVERGING"), warnings=many(TEXT),
    ),
    "GroupRequest": {"oneOf": [
        asked("AddMemberRequest", "member", member=MEMBER),
        asked("ReplaceMemberRequest", "id member", id=TEXT, member=MEMBER),
        asked("RemoveMemberRequest", "id", id=TEXT, force=FLAG),
        asked("CancelChangeRequest"),
        asked("JoinPeerRequest", "memberGroupReference", memberGroupReference=TEXT),
    ]},
    "GossipKeys": of(key=TEXT, members=many(of(id=TEXT, keys=many(TEXT), problem=TEXT))),
    "GossipKeyRequest": {"oneOf": [
        asked("InstallKeyRequest", id=TEXT),
        asked("UseKeyRequest", "id", id=TEXT),
        asked("RemoveKeyRequest", "id", id=TEXT),
    ]},
    "StoredRowsRequest": of("", "ranges", ranges=many(many(WHOLE)), of=one("log", "branches")),
    "User": of(documentSelfLink=TEXT, name=TEXT, grants=THING),
    "Selector": of(replicationFactor=WHOLE, slots=WHOLE, shares=THING,
                   table=many(of(slot=WHOLE, owner={"type": ["string", "null"]},
                                 replicas=many(TEXT)))),
}  # fmt: skip

DOCUMENTS: Mapping[str, Json] = {
    "NewSubscription": of(
        "", "callback", callback=TEXT, where=TEXT, since=TEXT, replayState=FLAG, secret=TEXT,
        documentExpirationTimeMicros=WHOLE,
    ),
    "SubscriptionRequest": {"oneOf": [asked("PauseRequest"), asked("ResumeRequest")]},
    "QueryRequest": of(
        "A query, its groups, or the next page of one.",
        path=TEXT, **CONDITION, orderBy=TEXT, select=TEXT, expand=FLAG, limit=WHOLE, top=WHOLE,
        count=FLAG, asOf=TEXT, deleted=FLAG, versions=TEXT, aggregates=TEXT, groupBy=TEXT,
        cursor=TEXT,
    ),
    "ChangesRequest": of(prefix=TEXT, since=TEXT, where=TEXT, limit=WHOLE),
    "ScanRequest": of(
        "", "prefix cut", prefix=TEXT, cut=CUT, columns=ANY, **CONDITION, versions=ANY,
        deleted=FLAG, skip=ANY, limit=WHOLE, direct=FLAG, compression=TEXT, rowsPerSecond=REAL,
        job=TEXT, catchUpMs=WHOLE, aggregates=TEXT, groupBy=TEXT,
    ),
    "StretchRequest": of("", "prefix ranges", prefix=TEXT, ranges=CUT),
}  # fmt: skip

STREAMS: Mapping[str, Json] = {
    "NewTopic": of(
        "", "name", name=TEXT, partitions=WHOLE, replicationFactor=WHOLE, minInSync=WHOLE,
        retention=RETENTION, maxLag=of(ms=WHOLE, records=WHOLE), batchBytesMax=WHOLE, unclean=FLAG,
    ),
    "TopicChange": of(retention=RETENTION, minInSync=WHOLE, maxLag=THING, partitions=WHOLE,
                      unclean=FLAG),
    "Topic": of(name=TEXT, partitionCount=WHOLE, resolution=TEXT, **DOCUMENT),
    "Partition": of(**PARTITION),
    "Partitions": of(partitions=many({"$ref": "#/components/schemas/Partition"})),
    "PartitionRequest": {"oneOf": [
        asked("ElectRequest", unclean=FLAG),
        asked("MoveLeaderRequest", "to", to=TEXT),
        asked("MoveRequest", "replicas", replicas=many(TEXT)),
    ]},
    "Appended": of(partition=WHOLE, base=WHOLE, count=WHOLE, epoch=WHOLE, leo=WHOLE, hw=MAYBE,
                   repeated=FLAG, parts=many(THING)),
    "Records": of(records=many(of(offset=WHOLE, epoch=WHOLE, key=ANY, value=ANY, headers=THING,
                                  timestampMicros=WHOLE)), next=WHOLE, hw=MAYBE, leo=WHOLE,
                  base=WHOLE, epoch=WHOLE, incarnation=TEXT),
    "NewProducer": of("", "id", id=TEXT),
    "Producer": of(id=TEXT, epoch=WHOLE),
}  # fmt: skip

OWNERS: Mapping[str, Json] = {
    "NewLease": of(ttlMs=WHOLE, behavior=one("delete", "release"), holder=TEXT,
                   documentSelfLink=TEXT),
    "KeepAlive": of("", "leases", leases=many(TEXT)),
    "LeaseRequest": {"oneOf": [
        asked("KeepAliveRequest"), asked("AttachRequest", "link", link=TEXT),
        asked("DetachRequest", "link", link=TEXT), asked("ExpireRequest"),
    ]},
    "NewTurns": of("", "name", name=TEXT, graceMs=WHOLE),
    "TurnRequest": of(
        "", "kind", candidate=TEXT, lease=TEXT, token=WHOLE, value=ANY, to=TEXT,
        kind=one("CampaignRequest", "AcquireRequest", "ResignRequest", "ReleaseRequest",
                 "TransferRequest", "ProclaimRequest"),
    ),
    "NewGroup": of("", "name topics", name=TEXT, topics=many(TEXT), **SESSION),
    "NewRoles": of("", "name partitions", name=TEXT, partitions=WHOLE, **SESSION),
    "GroupSettings": of(**SESSION),
    "NewMember": of("", "member", member=TEXT, instance=TEXT, host=TEXT, capacity=WHOLE,
                    former=ANY),
    "MemberRequest": {"oneOf": [
        asked("HeartbeatRequest", "number generation listing", number=WHOLE, generation=WHOLE,
              listing=WHOLE, owned=ANY, answered=ANY),
        asked("WaitRequest", "generation listing", generation=WHOLE, listing=WHOLE),
    ]},
    "Offsets": of("", "member generation offsets", member=TEXT, generation=WHOLE,
                  offsets=many(THING)),
    "OffsetRequest": {"oneOf": [
        asked("ClaimRequest", "token", token=WHOLE),
        asked("ResetRequest", "offset", offset=WHOLE),
    ]},
}  # fmt: skip

SCHEMAS: Mapping[str, Json] = {**SHARED, **NODES, **DOCUMENTS, **STREAMS, **OWNERS}
