"""Behaviours of streams: appends, elections by lag, replicas that fall behind."""

from docstore.runtime.trace.lines import TraceFilter
from tests.transcripts.stage import Stage, scene

RECORDS = "/core/streams/flights/partitions/0/records"
OF_PARTITION = TraceFilter(partition="flights/0", link="/core/streams/flights/partitions/0")
MACHINES = ("streams",)


async def _topic(stage: Stage) -> str:
    """Make a topic with one partition on three replicas; return its leader."""
    body = {"name": "flights", "partitions": 1, "replicationFactor": 3, "minInSync": 2}
    await stage.quietly("n1", "POST", "/core/streams", body)
    await stage.sleep(3.0)
    _, page = await stage.quietly("n1", "GET", "/core/streams/flights/partitions/0")
    return str(page["leader"])


def _others(stage: Stage, leader: str) -> list[str]:
    return [host.name for host in stage.hosts if host.name != leader]


@scene("record-append")
async def record_append(stage: Stage) -> None:
    """A record is appended to a partition, at its leader and at another node.

    The leader appends it to its log and sends it to the other in-sync replicas. It is committed
    when all of them have it; the high watermark (`high`) then passes it and the client is answered.
    """
    leader = await _topic(stage)
    await stage.quietly(leader, "POST", RECORDS, {"value": 0})
    await stage.sleep()
    for at in (leader, _others(stage, leader)[0]):
        await stage.ask(at, "POST", RECORDS, {"value": 1}, about=OF_PARTITION, machines=MACHINES)


@scene("leader-killed")
async def leader_killed(stage: Stage) -> None:
    """The leader of a partition is killed; the in-sync replica that lacks least becomes the leader.

    The controller, which is the owner of the partition's document, fences the replicas under a new
    epoch and compares the ends of their logs. It writes the winner into the document, and only
    then the winner leads.
    """
    leader = await _topic(stage)
    await stage.quietly(leader, "POST", RECORDS, {"value": 0})
    await stage.sleep()
    stage.kill(leader)
    await stage.sleep(5.0)
    stage.show(OF_PARTITION, MACHINES)
    at = _others(stage, leader)[0]
    await stage.ask(at, "POST", RECORDS, {"value": 1}, about=OF_PARTITION, machines=MACHINES)


@scene("replica-falls-out")
async def replica_falls_out(stage: Stage) -> None:
    """A follower is killed: the leader takes it out of the in-sync set, and back when it is there.

    A record waits for the follower until the set is smaller. The set is a part of the partition's
    document, so the change is a write like any other.
    """
    leader = await _topic(stage)
    await stage.quietly(leader, "POST", RECORDS, {"value": 0})
    await stage.sleep()
    follower = _others(stage, leader)[1]
    stage.kill(follower)
    await stage.ask(leader, "POST", RECORDS, {"value": 1}, about=OF_PARTITION, machines=MACHINES)
    stage.begin(follower)
    await stage.sleep(5.0)
    stage.show(OF_PARTITION, MACHINES)
