"""Texts of the statements that `storage.described.streams` describes. Do not edit."""

from docstore.storage.inserts import MANY, inserts

CREATE = [
    (
        "\n"
        "CREATE TABLE batches (\n"
        "\tid INTEGER NOT NULL, \n"
        "\thead BLOB NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\trest BLOB NOT NULL, \n"
        "\tPRIMARY KEY (id)\n"
        ")\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE file (\n"
        "\tformat INTEGER NOT NULL, \n"
        "\tboot INTEGER NOT NULL, \n"
        "\tis_old INTEGER NOT NULL, \n"
        "\tschema INTEGER NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (format)\n"
        ")\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE partitions (\n"
        "\tnumber INTEGER NOT NULL, \n"
        "\tname TEXT NOT NULL, \n"
        "\tcopy TEXT NOT NULL, \n"
        "\tpromised_epoch INTEGER NOT NULL, \n"
        "\tpromised_owner TEXT NOT NULL, \n"
        "\tadopted_epoch INTEGER NOT NULL, \n"
        "\tadopted_owner TEXT NOT NULL, \n"
        "\treigns BLOB NOT NULL, \n"
        "\tstart INTEGER NOT NULL, \n"
        "\thigh INTEGER NOT NULL, \n"
        "\tproducers_at INTEGER NOT NULL, \n"
        "\tstatus TEXT NOT NULL, \n"
        "\tproducers BLOB NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (number), \n"
        "\tUNIQUE (name)\n"
        ")\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE tails (\n"
        "\tnumber INTEGER NOT NULL, \n"
        "\tname TEXT NOT NULL, \n"
        "\tfirst INTEGER NOT NULL, \n"
        '\t"end" INTEGER NOT NULL, \n'
        "\tsize INTEGER NOT NULL, \n"
        "\tlast_us INTEGER NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (number)\n"
        ")\n"
        "\n"
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
FILE = "SELECT file.format, file.boot, file.is_old, file.schema, file.checksum \nFROM file"
INSERT_FILE = "INSERT INTO file (format, boot, is_old, schema, checksum) VALUES (?, ?, ?, ?, ?)"
UPDATE_FILE = "UPDATE file SET format=?, boot=?, is_old=?, schema=?, checksum=?"
PARTITIONS = (
    "SELECT partitions.number, partitions.name, partitions.copy, partitions.promised_epoch, "
    "partitions.promised_owner, partitions.adopted_epoch, partitions.adopted_owner, "
    "partitions.reigns, partitions.start, partitions.high, partitions.producers_at, "
    "partitions.status, partitions.producers, partitions.checksum \n"
    "FROM partitions ORDER BY partitions.number"
)
TAILS = (
    'SELECT tails.number, tails.name, tails.first, tails."end", tails.size, tails.last_us, '
    "tails.checksum \n"
    "FROM tails ORDER BY tails.number"
)
TAIL_NUMBERS = "SELECT tails.number \nFROM tails"
TAIL_OF = (
    'SELECT tails.number, tails.name, tails.first, tails."end", tails.size, tails.last_us, '
    "tails.checksum \n"
    "FROM partitions LEFT OUTER JOIN tails ON tails.number = partitions.number \n"
    "WHERE partitions.name = ?"
)
NUMBER_BY_TAIL = "SELECT tails.number \nFROM tails \nWHERE tails.name = ?"
HEADS = (
    "SELECT batches.id, batches.head, batches.checksum \n"
    "FROM batches \n"
    "WHERE batches.id >= ? AND batches.id < ? ORDER BY batches.id\n"
    " LIMIT ? OFFSET 0"
)
HEAD_AT = (
    "SELECT batches.id, batches.head, batches.checksum \n"
    "FROM batches \n"
    "WHERE batches.id <= ? ORDER BY batches.id DESC\n"
    " LIMIT 1 OFFSET 0"
)
BATCHES = (
    "SELECT batches.id, batches.head, batches.rest \n"
    "FROM batches \n"
    "WHERE batches.id >= (SELECT batches.id \n"
    "FROM batches \n"
    "WHERE batches.id <= ? ORDER BY batches.id DESC\n"
    " LIMIT 1 OFFSET 0) AND batches.id < ? ORDER BY batches.id"
)
IDS = (
    "SELECT batches.id \n"
    "FROM batches \n"
    "WHERE batches.id >= ? AND batches.id < ? ORDER BY batches.id\n"
    " LIMIT ? OFFSET 0"
)
BYTES = (
    "SELECT sum(length(batches.head) + length(batches.rest)) AS sum_1 \n"
    "FROM batches \n"
    "WHERE batches.id >= ? AND batches.id < ?"
)
