"""Texts of the statements that `storage.described.streams` describes. Do not edit."""

from docstore.storage.inserts import MANY, inserts

CREATE = [
    (
        "CREATE TABLE batches ( id INTEGER NOT NULL, head BLOB NOT NULL, checksum INTEGER NOT "
        "NULL, rest BLOB NOT NULL, PRIMARY KEY (id) )"
    ),
    (
        "CREATE TABLE file ( format INTEGER NOT NULL, boot INTEGER NOT NULL, is_old INTEGER NOT "
        "NULL, schema INTEGER NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (format) )"
    ),
    (
        "CREATE TABLE partitions ( number INTEGER NOT NULL, name TEXT NOT NULL, copy TEXT NOT "
        "NULL, promised_epoch INTEGER NOT NULL, promised_owner TEXT NOT NULL, adopted_epoch "
        "INTEGER NOT NULL, adopted_owner TEXT NOT NULL, reigns BLOB NOT NULL, start INTEGER NOT "
        "NULL, high INTEGER NOT NULL, producers_at INTEGER NOT NULL, status TEXT NOT NULL, "
        "producers BLOB NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (number), UNIQUE (name) "
        ")"
    ),
    (
        "CREATE TABLE tails ( number INTEGER NOT NULL, name TEXT NOT NULL, first INTEGER NOT "
        'NULL, "end" INTEGER NOT NULL, size INTEGER NOT NULL, last_us INTEGER NOT NULL, checksum '
        "INTEGER NOT NULL, PRIMARY KEY (number) )"
    ),
]
INSERT_BATCH = inserts(
    ("INSERT OR ROLLBACK INTO batches (id, head, checksum, rest) VALUES (?, ?, ?, ?)"), MANY
)
SAVE_PARTITION = inserts(
    (
        "INSERT OR ROLLBACK INTO partitions (number, name, copy, promised_epoch, promised_owner, "
        "adopted_epoch, adopted_owner, reigns, start, high, producers_at, status, producers, "
        "checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO "
        "UPDATE SET name = excluded.name, copy = excluded.copy, promised_epoch = "
        "excluded.promised_epoch, promised_owner = excluded.promised_owner, adopted_epoch = "
        "excluded.adopted_epoch, adopted_owner = excluded.adopted_owner, reigns = "
        "excluded.reigns, start = excluded.start, high = excluded.high, producers_at = "
        "excluded.producers_at, status = excluded.status, producers = excluded.producers, "
        "checksum = excluded.checksum"
    ),
    MANY,
)
SAVE_TAIL = inserts(
    (
        'INSERT OR ROLLBACK INTO tails (number, name, first, "end", size, last_us, checksum) '
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET name = excluded.name, "
        'first = excluded.first, "end" = excluded."end", size = excluded.size, last_us = '
        "excluded.last_us, checksum = excluded.checksum"
    ),
    MANY,
)
DELETE_PARTITION = "DELETE FROM partitions WHERE partitions.number = ?"
DELETE_TAIL = "DELETE FROM tails WHERE tails.number = ?"
DELETE_BATCHES = "DELETE FROM batches WHERE batches.id >= ? AND batches.id < ?"
FILE = "SELECT file.format, file.boot, file.is_old, file.schema, file.checksum FROM file"
INSERT_FILE = "INSERT INTO file (format, boot, is_old, schema, checksum) VALUES (?, ?, ?, ?, ?)"
UPDATE_FILE = "UPDATE file SET format=?, boot=?, is_old=?, schema=?, checksum=?"
PARTITIONS = (
    "SELECT partitions.number, partitions.name, partitions.copy, partitions.promised_epoch, "
    "partitions.promised_owner, partitions.adopted_epoch, partitions.adopted_owner, "
    "partitions.reigns, partitions.start, partitions.high, partitions.producers_at, "
    "partitions.status, partitions.producers, partitions.checksum FROM partitions ORDER BY "
    "partitions.number"
)
TAILS = (
    'SELECT tails.number, tails.name, tails.first, tails."end", tails.size, tails.last_us, '
    "tails.checksum FROM tails ORDER BY tails.number"
)
TAIL_NUMBERS = "SELECT tails.number FROM tails"
TAIL_OF = (
    'SELECT tails.number, tails.name, tails.first, tails."end", tails.size, tails.last_us, '
    "tails.checksum FROM partitions LEFT OUTER JOIN tails ON tails.number = partitions.number"
    " WHERE partitions.name = ?"
)
NUMBER_BY_TAIL = "SELECT tails.number FROM tails WHERE tails.name = ?"
HEADS = (
    "SELECT batches.id, batches.head, batches.checksum FROM batches WHERE batches.id >= ? AND"
    " batches.id < ? ORDER BY batches.id LIMIT ? OFFSET 0"
)
HEAD_AT = (
    "SELECT batches.id, batches.head, batches.checksum FROM batches WHERE batches.id <= ? "
    "ORDER BY batches.id DESC LIMIT 1 OFFSET 0"
)
BATCHES = (
    "SELECT batches.id, batches.head, batches.rest FROM batches WHERE batches.id >= (SELECT "
    "batches.id FROM batches WHERE batches.id <= ? ORDER BY batches.id DESC LIMIT 1 OFFSET 0)"
    " AND batches.id < ? ORDER BY batches.id"
)
IDS = (
    "SELECT batches.id FROM batches WHERE batches.id >= ? AND batches.id < ? ORDER BY "
    "batches.id LIMIT ? OFFSET 0"
)
BYTES = (
    "SELECT sum(length(batches.head) + length(batches.rest)) AS sum_1 FROM batches WHERE "
    "batches.id >= ? AND batches.id < ?"
)
