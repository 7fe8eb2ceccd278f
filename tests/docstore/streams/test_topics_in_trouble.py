"""Topics that are made, changed, deleted and made again while nodes and updates fail."""

from random import Random

import pytest

from docstore.model.operation import Answer, Operation
from docstore.streams.replica_set import Resolution
from docstore.streams.topic import Provision
from tests.docstore.streams.group import Group
from tests.docstore.streams.topics import TOPIC, ask, change, make, names, partitions, topic


class Trouble:
    """Operations that are refused, lost before or after they took effect, or come much later."""

    def __init__(self, group: Group, rng: Random) -> None:
        self._group = group
        self._rng = rng
        self._late: list[Operation] = []
        self.share = 0.3

    def __call__(self, operation: Operation) -> Answer | None:
        """Answer in the documents' place, if there is trouble."""
        if self._rng.random() > self.share:
            return None
        fate = self._rng.randrange(4)
        if fate == 0:
            return Answer(503, "no-quorum")
        if fate == 1:
            self._group.apply(operation)
        elif fate == 2:
            self._late.append(operation)
        return Answer(504, "undecided", unknown=True)

    def let_arrive(self) -> None:
        """Apply the operations that come late."""
        late, self._late = self._late, []
        for operation in late:
            self._group.apply(operation)
        self._group.settle()


def start_all(group: Group) -> None:
    """Start every node that is down."""
    for name in group.names:
        if name not in group.machines:
            group.start(name)


def disturb(group: Group, rng: Random, trouble: Trouble, lives: int) -> int:
    """Do one thing to the topic or to the group; return how many topics there have been."""
    row = group.documents.get(TOPIC)
    is_there = row is not None and not row.deleted
    match rng.randrange(8):
        case 0 | 1 if not is_there:
            lives += 1
            make(group, rng.randint(1, 5), rng.randint(1, 3), incarnation=f"i{lives}")
        case 1 | 2 if is_there:
            more = {"partitions": topic(group).partitions + 1}
            least = {"minInSync": rng.randint(1, topic(group).replication_factor)}
            change(group, **rng.choice((more, least)))
        case 3 if is_there:
            ask(group, "DELETE")
        case 4 | 5:
            group.govern(rng.choice(list(group.machines)))
        case 6:
            trouble.let_arrive()
        case 7 if len(group.machines) == len(group.names):
            group.crash(rng.choice(group.names))
        case 7:
            start_all(group)
    return lives


@pytest.mark.parametrize("seed", range(25))
def test_partitions_converge_to_those_of_the_topic(seed: int) -> None:
    rng = Random(seed)
    group = Group("abcd", orphans_s=3.0, strays_s=5.0)
    trouble = Trouble(group, rng)
    group.answer_updates = trouble
    lives = 0
    for _ in range(40):
        lives = disturb(group, rng, trouble, lives)
        group.run(rng.random() / 2)
    trouble.let_arrive()
    trouble.share = 0.0
    start_all(group)
    group.run(30)
    found = partitions(group)
    kept = {name for node in group.machines for name in names(group, node)}
    if group.documents[TOPIC].deleted:
        assert not found
        assert not kept
    else:
        said = topic(group)
        assert said.resolution is Provision.PROVISIONED
        assert list(found) == list(range(said.partitions))
        for each in found.values():
            assert (each.incarnation, each.min_in_sync) == (said.incarnation, said.min_in_sync)
            assert len(each.replicas) == said.replication_factor
            assert each.resolution is Resolution.ONLINE
        assert kept == {f"t/{number}@{said.incarnation}" for number in found}
    assert not group.alarms
    assert not any(each.duties.provisioning._jobs for each in group.machines.values())
