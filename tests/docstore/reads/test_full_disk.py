"""Reads of this node's own copy when its disk is full, and it recovers from stored rows."""

from docstore.documents.events import DiskFilled
from docstore.model.operation import Operation
from docstore.model.slots import slot_of
from docstore.reads.local import read_here
from tests.docstore.alone import LINK, SLOTS, SmallDisk, alone


async def test_a_decided_document_is_found_when_the_disk_is_full() -> None:
    store = SmallDisk()
    driver, _ = await alone(store)
    try:
        put = Operation(verb="PUT", link=LINK, body=b'{"name": "a"}', creates=True)
        assert (await driver.submit(put, 5.0)).status == 201
        await driver.stored()
        slot, read = slot_of(LINK, SLOTS), Operation(verb="GET", link=LINK)
        recovered = await store.recover()
        assert recovered.slots[slot].record.decided == 0  # It is saved only now and then.
        driver.feed(DiskFilled(recovered))
        assert not driver.view.owners.owns(slot)
        reading = read_here(
            driver.view, slot, store, read, service=None, min_version=None, timeout_s=1.0
        )
        found = await reading
        assert found is not None
        answer, staleness_ms = found
        assert (answer.status, staleness_ms) == (200, None)
    finally:
        await driver.stop()
        await store.close()
