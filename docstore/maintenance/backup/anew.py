"""What a new group may not take over as it is: topics and offsets, whose records it lacks. Pure.

Records are in no backup. A topic gets another incarnation, which is how a topic that was made again
under its name is told from the one before: its partitions are made anew, and begin empty. How far a
group has read is forgotten with them; the tokens of those who may commit go on.
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
    """Say whether a document speaks of records, so that a new group begins it anew."""
    return is_topic(link) or is_of_offsets(link.rpartition("/")[0])


def begun_anew(row: Row, origin: str) -> bytes | None:
    """Return the state with which a document begins in a new group; None: as it is.

    row: its newest, of a link that `is_of_records`. origin: the id of the backup, so that all
    founders write the same.
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
    """Return the version that follows a row, under another term.

    Whose operation it was stays: that is where a document remembers its fences.
    """
    version = row.version + 1
    return row._replace(
        n=n, epoch=epoch, owner=owner, version=version, action="PUT", updated_us=updated_us,
        signature=json.signature(json.load(state)),
        digest=chain_digest(row.digest, row.link, version, False, state),
        state=state,
    )  # fmt: skip
