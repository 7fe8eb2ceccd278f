"""The replica of a slot publishes to its node the decided rows that nodes act on."""

from docstore.documents.effects import Publish
from docstore.model.document import Row
from tests.docstore.documents.test_replica import replica


def test_a_replica_publishes_decided_rows_that_nodes_act_on() -> None:
    machine = replica("n2")
    acted_on = (
        "/core/factories/notes",
        "/core/streams/flights",
        "/core/streams/flights/partitions/0",
    )
    links = ("/t/a", *acted_on, "/core/streams", "/core/spark/jobs/a")
    log = machine.core.logs[0]
    for n, link in enumerate(links, 1):
        log.pending[n] = Row(0, n, 1, "n1", link, 0, "PUT", n, False, b"", b"", b"", b"{}")
    machine.core.outbox.publish(log, 0, len(links))
    published = [each.row.link for each in machine.core.outbox.out if isinstance(each, Publish)]
    assert published == list(acted_on)
