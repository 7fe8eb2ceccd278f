"""Findings on streams: partitions without a leader, with missing replicas, or with lag.

One finding covers all partitions of a topic or node, because a node may have thousands.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding
from docstore.cli.diagnosis.seen import Page, Seen
from docstore.model.words import count

TOPICS, PARTITIONS = "streams.md", "partitions.md"
LAG_RECORDS = 10_000
NAMED_MAX = 8


def findings(seen: Seen) -> Iterator[Finding]:
    for topic in seen.topics:
        yield from _of_topic(topic)
    yield from _of_replicas([each for topic in seen.topics for each in topic["partitions"]])
    for name, node in seen.answering():
        if faulty := node.page.get("partitions", {}).get("faulty", 0):
            yield Finding(
                WRONG, name, f"{count(faulty, 'replica')} of partitions here abstain until their "
                "records are copied again",
                "wait; if it stays so, check its log and its disk", PARTITIONS,
            )  # fmt: skip


def _of_topic(topic: Page) -> Iterator[Finding]:
    """Yield findings on a topic; partitions that are not created yet are left out."""
    name = str(topic["name"])
    partitions = [each for each in topic["partitions"] if each.get("resolution")]
    if (resolution := topic.get("resolution", "provisioned")) != "provisioned":
        yield Finding(
            RISK, name, f"the topic is {resolution}",
            "wait some seconds; if it stays so, add members: each replica needs its own", TOPICS,
        )  # fmt: skip
    if leaderless := [each for each in partitions if not each.get("leader")]:
        last = sorted({replica for each in leaderless for replica, _ in each.get("lrs", ())})
        yield Finding(
            WRONG, name, f"no node leads {_named(leaderless)}",
            "wait two seconds for an election; if it stays so, start "
            f"{' or '.join(last) or 'a replica'}", PARTITIONS,
        )  # fmt: skip
    few = [each for each in partitions if each.get("leader") and _is_short(each)]
    if few:
        yield Finding(
            WRONG, name, f"{_named(few)} of it accept no records: fewer than {few[0]['minInSync']} "
            "replicas are in the live replica set",
            "start the nodes with the other replicas", PARTITIONS,
        )  # fmt: skip


def _is_short(partition: Page) -> bool:
    return bool(len(partition.get("lrs", ())) < partition.get("minInSync", 1))


def _named(partitions: Sequence[Page]) -> str:
    """Return the numbers of the partitions, or only their count if there are many."""
    if len(partitions) > NAMED_MAX:
        return count(len(partitions), "partition")
    numbers = ", ".join(str(each["partition"]) for each in partitions)
    return f"partition{'' if len(partitions) == 1 else 's'} {numbers}"


def _of_replicas(partitions: Sequence[Page]) -> Iterator[Finding]:
    absent: Counter[str] = Counter()
    slow: Counter[str] = Counter()
    for each in partitions:
        live = {replica for replica, _ in each.get("lrs", ())}
        absent.update(set(each.get("replicas", ())) - live)
        slow.update(
            follower["id"]
            for follower in each.get("followers", ())
            if (follower.get("lag") or 0) > LAG_RECORDS
        )
    for name, number in sorted(absent.items()):
        yield Finding(
            RISK, name, f"{count(number, 'replica')} of partitions on it are not in their live "
            "replica sets",
            "start the node, or read in its log why it does not follow", PARTITIONS,
        )  # fmt: skip
    for name, number in sorted(slow.items()):
        yield Finding(
            RISK, name, f"it follows {count(number, 'partition')} more than {LAG_RECORDS:,} "
            "records behind",
            "check whether its disk or network is slower than that of the other nodes", PARTITIONS,
        )  # fmt: skip
