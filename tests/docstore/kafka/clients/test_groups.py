"""Consumer groups of each client, with processes as members, which are killed or stopped."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest

from docstore.client.local import LocalCluster
from tests.docstore.kafka.clients.http import created
from tests.docstore.watching import until

PARTITIONS = 4
ALL = set(range(PARTITIONS))


class Member(NamedTuple):
    """A process, and the file with its lines."""

    process: subprocess.Popen[bytes]
    output: Path

    def seen(self) -> list[tuple[int, int, int]]:
        """Return partition, offset and value of the records that the process has printed."""
        lines = self.output.read_text().splitlines()
        return [(int(p), int(offset), int(value)) for p, offset, value in map(str.split, lines)]

    def partitions(self, since: int) -> set[int]:
        """Return the partitions of its records whose value is at least `since`."""
        return {partition for partition, _, value in self.seen() if value >= since}


@contextmanager
def member(client: str, bootstrap: str, topic: str, folder: Path) -> Iterator[Member]:
    """Start a member of the group "of-TOPIC"; kill it at the end."""
    output = folder / f"member-{len(list(folder.iterdir()))}"
    command = [sys.executable, "-W", "ignore", "-m", "tests.docstore.kafka.clients.member"]
    with output.open("wb") as lines, output.with_suffix(".log").open("wb") as log:
        words = (client, bootstrap, topic, f"of-{topic}")
        process = subprocess.Popen([*command, *words], stdout=lines, stderr=log)
        try:
            yield Member(process, output)
        finally:
            process.kill()
            process.wait()


class Feed:
    """Records with growing values, one for each partition in a round."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True}
        self._producer, self._topic = confluent_kafka.Producer(settings), topic
        self.next = 0

    def round(self) -> None:
        """Append a record to each partition."""
        for partition in range(PARTITIONS):
            self._producer.produce(self._topic, b"%d" % (self.next + partition), None, partition)
        assert self._producer.flush(10) == 0
        self.next += PARTITIONS


@pytest.mark.thorough
def test_a_member_takes_over_and_another_resumes(
    group: LocalCluster, bootstrap: str, client: str, tmp_path: Path
) -> None:
    _take_over(group, bootstrap, (client, client), tmp_path)


@pytest.mark.thorough
def test_a_member_of_another_library_takes_over_and_the_first_resumes(
    group: LocalCluster, bootstrap: str, tmp_path: Path
) -> None:
    _take_over(group, bootstrap, ("aiokafka", "confluent"), tmp_path)


def _take_over(group: LocalCluster, bootstrap: str, clients: tuple[str, str], folder: Path) -> None:
    topic = created(group, partitions=PARTITIONS)
    feed, words = Feed(bootstrap, topic), (bootstrap, topic, folder)
    with member(clients[0], *words) as first, member(clients[1], *words) as second:

        def is_shared() -> bool:
            since = feed.next
            feed.round()
            until(lambda: first.partitions(since) | second.partitions(since) == ALL)
            one, other = first.partitions(since), second.partitions(since)
            return bool(one and other) and not one & other

        until(is_shared)
        first.process.kill()
        since = feed.next
        feed.round()
        until(lambda: second.partitions(since) == ALL)
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(10) == 0
        seen = first.seen() + second.seen()
    resumed = feed.next
    feed.round()
    with member(clients[0], *words) as third:
        until(lambda: third.partitions(resumed) == ALL)
        assert len(third.seen()) == PARTITIONS
        seen += third.seen()
    assert {value for _, _, value in seen} == set(range(feed.next))
    assert all(value == offset * PARTITIONS + partition for partition, offset, value in seen)
