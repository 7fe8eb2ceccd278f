"""The ledger of a simulation beyond the contract: copies, and batches that rot."""

from docstore.model.streams_batch import header_of
from docstore.storage.partitions import Batches, CorruptPartition, CutPartition
from tests.docstore.storage.sealed import A, B, Leader, begun
from tests.memory.partition_ledger import PartitionLedger


def test_a_copied_ledger_changes_independently() -> None:
    ledger, leader = PartitionLedger(), Leader()
    ledger.apply([*begun(A, B), leader.append(A, 1, 1)])
    copy = ledger.copy()
    was = ledger.recovered(1)
    ledger.apply([CutPartition(A, 1)])
    assert copy.recovered(1) == was
    copy.apply([leader.append(A, 1)])
    assert [each.recovered(1).partitions[A].end for each in (ledger, copy)] == [1, 3]
    assert ledger.recovered(2, is_old=True).is_old


def test_a_rotten_batch_is_not_served() -> None:
    ledger, leader = PartitionLedger(), Leader()
    ledger.apply([*begun(A), leader.append(A, 2, 2, 2)])
    copy = ledger.copy()
    ledger.rot(A, 3)
    assert ledger.answer(Batches(A, 0, 9)) == CorruptPartition(A)
    for query in (Batches(A, 0, 2), Batches(A, 4, 9)):
        assert ledger.answer(query) == copy.answer(query)
    whole = copy.answer(Batches(A, 0, 9))
    assert isinstance(whole, list)
    assert [header_of(raw).base for raw in whole if isinstance(raw, bytes)] == [0, 2, 4]
