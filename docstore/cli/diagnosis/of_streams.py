"""Findings on streams: partitions that nobody leads, that are short of replicas, that lag.

One for each topic, or for each node that lacks: a node may have a part in thousands of partitions.
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
    """Yield what there is to say."""
    for topic in seen.topics:
        yield from _of_topic(topic)
    yield from _of_replicas([each for topic in seen.topics for each in topic["partitions"]])
    for name, node in seen.answering():
        if faulty := node.page.get("partitions", {}).get("faulty", 0):
            yield Finding(
                WRONG, name, f"{count(faulty, 'replica')} of partitions here vouch for nothing "
                "until they are filled again",
                "wait; if it stays so, look at its log and its disk", PARTITIONS,
            )  # fmt: skip


def _of_topic(topic: Page) -> Iterator[Finding]:
    """Yield what there is to say; of partitions that are not made yet the topic itself tells."""
    name = str(topic["name"])
    partitions = [each for each in topic["partitions"] if each.get("resolution")]
    if (resolution := topic.get("resolution", "provisioned")) != "provisioned":
        yield Finding(
            RISK, name, f"the topic is {resolution}",
            "it is made in seconds; else there are fewer members than it wants replicas", TOPICS,
        )  # fmt: skip
    if nobodys := [each for each in partitions if not each.get("leader")]:
        last = sorted({replica for each in nobodys for replica, _ in each.get("lrs", ())})
        yield Finding(
            WRONG, name, f"nobody leads {_named(nobodys)}",
            f"an election takes a second or two; else bring {' or '.join(last) or 'a replica'} "
            "back", PARTITIONS,
        )  # fmt: skip
    few = [each for each in partitions if each.get("leader") and _is_short(each)]
    if few:
        yield Finding(
            WRONG, name, f"{_named(few)} of it take no records: the live replica set has fewer than"
            f" the {few[0]['minInSync']} that must be in it",
            "bring the nodes back that have the other replicas", PARTITIONS,
        )  # fmt: skip


def _is_short(partition: Page) -> bool:
    return bool(len(partition.get("lrs", ())) < partition.get("minInSync", 1))


def _named(partitions: Sequence[Page]) -> str:
    """Return which partitions, as few words as do."""
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
            RISK, name, f"{count(number, 'replica')} of partitions that it should have are not in "
            "their live replica sets",
            "bring it back, or look what keeps it from following", PARTITIONS,
        )  # fmt: skip
    for name, number in sorted(slow.items()):
        yield Finding(
            RISK, name, f"it follows {count(number, 'partition')} more than {LAG_RECORDS:,} "
            "records behind",
            "look whether its disk or its network is slower than that of the others", PARTITIONS,
        )  # fmt: skip
