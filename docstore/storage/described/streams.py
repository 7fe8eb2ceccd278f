"""The tables of the file of streams, and the statements on them.

`batches` holds sealed batches, clustered by partition and offset, without a second index. The upper
bits of its key are the number of the partition, the lower 44 the offset of the first record. The
head of a batch has a column before the rest, so that a start, a search by time and retention read
some 80 bytes of a batch and not its records.

`tails` holds the range of each partition's batches, in one small row for each partition. Every
commit writes the rows of its partitions. The range is a second witness: without it, a batch with a
damaged key would not be found, and the log would end early without an error.

`partitions` holds the state of each partition (`PartitionRecord`), with a checksum; `file` that of
the whole file.
"""

from sqlalchemy import (
    Integer,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.schema import CreateTable

from docstore.storage.described.documents import LIMIT, NONE, ONE, replacing, sql
from docstore.storage.described.schema import table

metadata = MetaData()

partitions = table(metadata, "partitions", "number", {
    "number": Integer, "name": Text, "copy": Text, "promised_epoch": Integer,
    "promised_owner": Text, "adopted_epoch": Integer, "adopted_owner": Text,
    "reigns": LargeBinary, "start": Integer, "high": Integer, "producers_at": Integer,
    "status": Text, "producers": LargeBinary, "checksum": Integer,
}, UniqueConstraint("name"))  # fmt: skip

tails = table(metadata, "tails", "number", {
    "number": Integer, "name": Text, "first": Integer, "end": Integer, "size": Integer,
    "last_us": Integer, "checksum": Integer,
})  # fmt: skip

batches = table(metadata, "batches", "id", {
    "id": Integer, "head": LargeBinary, "checksum": Integer, "rest": LargeBinary,
})  # fmt: skip

file = table(metadata, "file", "format", {
    "format": Integer, "boot": Integer, "is_old": Integer, "schema": Integer, "checksum": Integer,
})  # fmt: skip

CREATE = [sql(CreateTable(table)) for table in metadata.sorted_tables]

# Without OR ROLLBACK, SQLite would copy each page that a statement of many lines touches.
INSERT_BATCH = sql(insert(batches).prefix_with("OR ROLLBACK"))
SAVE_PARTITION = replacing(insert(partitions).prefix_with("OR ROLLBACK"))
SAVE_TAIL = replacing(insert(tails).prefix_with("OR ROLLBACK"))
DELETE_PARTITION = sql(delete(partitions).where(partitions.c.number == bindparam("number")))
DELETE_TAIL = sql(delete(tails).where(tails.c.number == bindparam("number")))
_from = batches.c.id >= bindparam("first")
_between = (_from, batches.c.id < bindparam("beyond"))
DELETE_BATCHES = sql(delete(batches).where(*_between))

FILE = sql(select(file))
INSERT_FILE = sql(insert(file))
UPDATE_FILE = sql(update(file))

PARTITIONS = sql(select(partitions).order_by(partitions.c.number))
TAILS = sql(select(tails).order_by(tails.c.number))
TAIL_NUMBERS = sql(select(tails.c.number))
TAIL_OF = sql(
    select(*tails.c)
    .select_from(partitions.outerjoin(tails, tails.c.number == partitions.c.number))
    .where(partitions.c.name == bindparam("name"))
)
# No index serves this: it runs only when the index of `partitions` lacks the name.
NUMBER_BY_TAIL = sql(select(tails.c.number).where(tails.c.name == bindparam("name")))

_head = (batches.c.id, batches.c.head, batches.c.checksum)
HEADS = sql(select(*_head).where(*_between).order_by(batches.c.id).limit(LIMIT).offset(NONE))
_last_until = (batches.c.id <= bindparam("id"), batches.c.id.desc())
HEAD_AT = sql(select(*_head).where(_last_until[0]).order_by(_last_until[1]).limit(ONE).offset(NONE))
_holding = (
    select(batches.c.id)
    .where(_last_until[0])
    .order_by(_last_until[1])
    .limit(ONE)
    .offset(NONE)
    .scalar_subquery()
)
BATCHES = sql(
    select(batches.c.id, batches.c.head, batches.c.rest)
    .where(batches.c.id >= _holding, batches.c.id < bindparam("beyond"))
    .order_by(batches.c.id)
)
IDS = sql(select(batches.c.id).where(*_between).order_by(batches.c.id).limit(LIMIT).offset(NONE))
# SQLite keeps the lengths of columns at the beginning of a row, and reads no other pages for them.
BYTES = sql(
    select(func.sum(func.length(batches.c.head) + func.length(batches.c.rest))).where(*_between)
)
