"""Documents that a restored group must reset: topics and offsets, because backups have no records.

The module is pure. A topic gets a new incarnation, as if it was deleted and created again: its
partitions are created anew and begin empty. The committed offsets of consumer groups are reset, but
their fencing tokens continue.
"""

import hashlib
from dataclasses import replace

from docstore.model import json
from docstore.model.document import Row, chain_digest
from docstore.services.offsets import NOTHING, is_of_offsets
from docstore.streams.replica_set import is_topic
from docstore.streams.topic import Provision, read_topic

INCARNATION_CHARACTERS = 32


def is_of_records(link: str) -> bool:
    """Say whether a new group must reset a document: it refers to records."""
    return is_topic(link) or is_of_offsets(link.rpartition("/")[0])


def begun_anew(row: Row, origin: str) -> bytes | None:
    """Return the state of a document in a new group, None if it stays unchanged.

    row: newest row of the document. origin: id of the backup, so that all founders write the same
    state.
    """
    if row.deleted:
        return None
    if not is_topic(row.link):
        state = json.load(row.state)
        return json.dump({**state, "offset": NOTHING, "recordEpoch": 0, "metadata": ""})
    topic = read_topic(row.state)
    if topic is None:
        return None
    name = hashlib.sha256(f"{topic.incarnation} {origin}".encode()).hexdigest()
    incarnation = name[:INCARNATION_CHARACTERS]
    return replace(topic, incarnation=incarnation, resolution=Provision.PENDING).pack()


def next_row(row: Row, state: bytes, *, n: int, epoch: int, owner: str, updated_us: int) -> Row:
    """Return the version after a row, under another ballot.

    It keeps the row's operation, in which a document remembers its fences.
    """
    version = row.version + 1
    return row._replace(
        n=n, epoch=epoch, owner=owner, version=version, action="PUT", updated_us=updated_us,
        signature=json.signature(json.load(state)),
        digest=chain_digest(row.digest, row.link, version, False, state),
        state=state,
    )  # fmt: skip
