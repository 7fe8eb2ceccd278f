"""Texts of the statements that `storage.described.documents` describes. Do not edit."""

from docstore.storage.inserts import MANY_ROWS, inserts

_ROW = (
    "history.slot, history.n, history.epoch, history.owner, history.link, history.version, "
    "history.action, history.updated_us, history.deleted, history.signature, "
    "history.operation, history.digest, history.state, history.checksum"
)
CREATE = [
    (
        "CREATE TABLE branches ( slot INTEGER NOT NULL, n INTEGER NOT NULL, epoch INTEGER NOT "
        "NULL, owner TEXT NOT NULL, link TEXT NOT NULL, version INTEGER NOT NULL, action TEXT NOT"
        " NULL, updated_us INTEGER NOT NULL, deleted INTEGER NOT NULL, signature BLOB NOT NULL, "
        "operation BLOB NOT NULL, digest BLOB NOT NULL, state BLOB NOT NULL, checksum INTEGER NOT"
        " NULL, standing INTEGER NOT NULL, expires_us INTEGER NOT NULL, PRIMARY KEY (n) )"
    ),
    (
        "CREATE TABLE current ( slot INTEGER NOT NULL, link TEXT NOT NULL, version INTEGER NOT "
        "NULL, n INTEGER NOT NULL, deleted INTEGER NOT NULL, expires_us INTEGER NOT NULL, PRIMARY"
        " KEY (slot, link) ) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE cursors ( disk TEXT NOT NULL, configuration INTEGER NOT NULL, n INTEGER NOT"
        " NULL, checksum INTEGER NOT NULL, PRIMARY KEY (disk) ) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE history ( slot INTEGER NOT NULL, n INTEGER NOT NULL, epoch INTEGER NOT "
        "NULL, owner TEXT NOT NULL, link TEXT NOT NULL, version INTEGER NOT NULL, action TEXT NOT"
        " NULL, updated_us INTEGER NOT NULL, deleted INTEGER NOT NULL, signature BLOB NOT NULL, "
        "operation BLOB NOT NULL, digest BLOB NOT NULL, state BLOB NOT NULL, checksum INTEGER NOT"
        " NULL, PRIMARY KEY (slot, link, version) )"
    ),
    (
        'CREATE TABLE journal ( "key" BLOB NOT NULL, number INTEGER NOT NULL, stamp BLOB NOT '
        "NULL, alone INTEGER NOT NULL, checksum INTEGER NOT NULL, written INTEGER NOT NULL )"
    ),
    (
        "CREATE TABLE node ( format INTEGER NOT NULL, store_id TEXT NOT NULL, boot INTEGER NOT "
        "NULL, configuration BLOB, schema INTEGER NOT NULL, checksum INTEGER NOT NULL, PRIMARY "
        "KEY (format) )"
    ),
    (
        "CREATE TABLE slots ( slot INTEGER NOT NULL, promised_epoch INTEGER NOT NULL, "
        "promised_owner TEXT NOT NULL, adopted_epoch INTEGER NOT NULL, adopted_owner TEXT NOT "
        "NULL, reigns BLOB NOT NULL, kept INTEGER NOT NULL, floor INTEGER NOT NULL, decided "
        "INTEGER NOT NULL, status TEXT NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (slot) )"
    ),
    (
        "CREATE INDEX branches_expiring ON branches (expires_us) WHERE standing = 1 AND deleted ="
        " 0 AND expires_us > 0"
    ),
    ("CREATE INDEX branches_live ON branches (link) WHERE standing = 1 AND deleted = 0"),
    ("CREATE INDEX branches_of ON branches (slot, link, version)"),
    ("CREATE INDEX branches_old ON branches (updated_us) WHERE standing != 1"),
    ("CREATE INDEX current_dead ON current (slot, n) WHERE deleted = 1"),
    ("CREATE INDEX current_expiring ON current (expires_us) WHERE deleted = 0 AND expires_us > 0"),
    ("CREATE INDEX current_live ON current (link) WHERE deleted = 0"),
    ("CREATE UNIQUE INDEX history_n ON history (slot, n)"),
]
INSERT_ROW = inserts(
    (
        "INSERT OR ROLLBACK INTO history (slot, n, epoch, owner, link, version, action, "
        "updated_us, deleted, signature, operation, digest, state, checksum) VALUES (?, ?, ?, ?, "
        "?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    ),
    MANY_ROWS,
)
POINT = inserts(
    (
        "INSERT OR ROLLBACK INTO current (slot, link, version, n, deleted, expires_us) VALUES (?,"
        " ?, ?, ?, ?, ?) ON CONFLICT (slot, link) DO UPDATE SET version = excluded.version, n = "
        "excluded.n, deleted = excluded.deleted, expires_us = excluded.expires_us"
    ),
    MANY_ROWS,
)
ADVANCE = inserts(
    (
        "INSERT OR ROLLBACK INTO current (slot, link, version, n, deleted, expires_us) VALUES (?,"
        " ?, ?, ?, ?, ?) ON CONFLICT (slot, link) DO UPDATE SET version = excluded.version, n = "
        "excluded.n WHERE current.deleted = excluded.deleted AND current.expires_us = "
        "excluded.expires_us"
    ),
    MANY_ROWS,
)
UNPOINT = "DELETE FROM current WHERE current.slot = ? AND current.link = ?"
LINKS_ABOVE = "SELECT history.link FROM history WHERE history.slot = ? AND history.n > ?"
CUT = "DELETE FROM history WHERE history.slot = ? AND history.n > ?"
POINTER_BELOW = (
    "SELECT history.slot, history.link, history.version, history.n, history.deleted, "
    "history.state FROM history WHERE history.slot = ? AND history.link = ? ORDER BY "
    "history.version DESC LIMIT 1 OFFSET 0"
)
LINKS_BETWEEN = (
    "SELECT history.link FROM history WHERE history.slot = ? AND history.n > ? AND history.n <= ?"
)
NEWEST_VERSION = (
    "SELECT max(history.version) AS max_1 FROM history WHERE history.slot = ? AND "
    "history.link = ? AND history.n + 0 <= ?"
)
SUPERSEDED = (
    "DELETE FROM history WHERE history.slot = ? AND history.link = ? AND history.version < ? "
    "AND history.n + 0 <= ?"
)
TOMBSTONES = (
    f"SELECT {_ROW} FROM current JOIN history ON history.slot = current.slot AND history.link "
    "= current.link AND history.version = current.version WHERE current.slot = ? AND "
    "current.deleted = 1 AND current.n <= ? AND history.updated_us < ? ORDER BY current.n "
    "LIMIT ? OFFSET 0"
)
EXPIRED = (
    f"SELECT {_ROW} FROM current JOIN history ON history.slot = current.slot AND history.link "
    "= current.link AND history.version = current.version WHERE current.deleted = 0 AND "
    "current.expires_us > 0 AND current.expires_us < ? AND (current.expires_us, current.slot,"
    " current.n) > (?, ?, ?) ORDER BY current.expires_us, current.slot, current.n LIMIT ? "
    "OFFSET 0"
)
WITH_AGENDA = (
    f"SELECT {_ROW} FROM current JOIN history ON history.slot = current.slot AND history.link "
    "= current.link AND history.version = current.version WHERE current.slot = ? AND "
    "current.link >= ? AND current.link < ? AND substr(history.operation, 1, 1) = x'9c' ORDER"
    " BY current.link"
)
PURGE = "DELETE FROM history WHERE history.slot = ? AND history.link = ? AND history.version <= ?"
UNPOINT_VERSION = (
    "DELETE FROM current WHERE current.slot = ? AND current.link = ? AND current.version = ?"
)
ERASE_HISTORY = "DELETE FROM history WHERE history.slot = ?"
ERASE_CURRENT = "DELETE FROM current WHERE current.slot = ?"
SAVE_SLOT = (
    "INSERT INTO slots (slot, promised_epoch, promised_owner, adopted_epoch, adopted_owner, "
    "reigns, kept, floor, decided, status, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (slot) DO UPDATE SET promised_epoch = excluded.promised_epoch, "
    "promised_owner = excluded.promised_owner, adopted_epoch = excluded.adopted_epoch, "
    "adopted_owner = excluded.adopted_owner, reigns = excluded.reigns, kept = excluded.kept, "
    "floor = excluded.floor, decided = excluded.decided, status = excluded.status, checksum ="
    " excluded.checksum"
)
INSERT_NODE = (
    "INSERT INTO node (format, store_id, boot, configuration, schema, checksum) VALUES (?, ?,"
    " ?, ?, ?, ?)"
)
UPDATE_NODE = "UPDATE node SET format=?, store_id=?, boot=?, configuration=?, schema=?, checksum=?"
INSERT_JOURNAL = (
    'INSERT INTO journal ("key", number, stamp, alone, checksum, written) VALUES (?, ?, ?, ?, ?, ?)'
)
UPDATE_JOURNAL = (
    'UPDATE journal SET "key"=?, number=?, stamp=?, alone=?, checksum=?, '
    "written=(journal.written + 1)"
)
NODE = (
    "SELECT node.format, node.store_id, node.boot, node.configuration, node.schema, "
    "node.checksum FROM node"
)
JOURNAL = (
    'SELECT journal."key", journal.number, journal.stamp, journal.alone, journal.checksum, '
    "journal.written FROM journal"
)
SLOT = (
    "SELECT slots.slot, slots.promised_epoch, slots.promised_owner, slots.adopted_epoch, "
    "slots.adopted_owner, slots.reigns, slots.kept, slots.floor, slots.decided, slots.status,"
    " slots.checksum FROM slots WHERE slots.slot = ?"
)
SLOTS = (
    "SELECT slots.slot, slots.promised_epoch, slots.promised_owner, slots.adopted_epoch, "
    "slots.adopted_owner, slots.reigns, slots.kept, slots.floor, slots.decided, slots.status,"
    " slots.checksum FROM slots ORDER BY slots.slot"
)
LAST_ROW_BEFORE_SLOT = (
    f"SELECT {_ROW} FROM history WHERE history.slot < ? ORDER BY history.slot DESC, history.n "
    "DESC LIMIT 1 OFFSET 0"
)
ENDS_BY_POINTERS = (
    "SELECT current.slot, max(current.n) AS max_1 FROM current GROUP BY current.slot ORDER BY"
    " current.slot"
)
END_BY_POINTERS = "SELECT max(current.n) AS max_1 FROM current WHERE current.slot = ?"
NEWEST = (
    f"SELECT {_ROW}, (SELECT current.n FROM current WHERE current.slot = history.slot AND "
    "current.link = history.link) AS anon_1 FROM history WHERE history.slot = ? AND "
    "history.link = ? AND history.n + 0 <= ? ORDER BY history.version DESC LIMIT 1 OFFSET 0"
)
USED = (
    "WITH asked_1(place, slot, link) AS (VALUES (0, ?, ?), (1, ?, ?), (2, ?, ?), (3, ?, ?), "
    "(4, ?, ?), (5, ?, ?), (6, ?, ?), (7, ?, ?), (8, ?, ?), (9, ?, ?), (10, ?, ?), (11, ?, "
    "?), (12, ?, ?), (13, ?, ?), (14, ?, ?), (15, ?, ?), (16, ?, ?), (17, ?, ?), (18, ?, ?), "
    "(19, ?, ?), (20, ?, ?), (21, ?, ?), (22, ?, ?), (23, ?, ?), (24, ?, ?), (25, ?, ?), (26,"
    " ?, ?), (27, ?, ?), (28, ?, ?), (29, ?, ?), (30, ?, ?), (31, ?, ?), (32, ?, ?), (33, ?, "
    "?), (34, ?, ?), (35, ?, ?), (36, ?, ?), (37, ?, ?), (38, ?, ?), (39, ?, ?), (40, ?, ?), "
    "(41, ?, ?), (42, ?, ?), (43, ?, ?), (44, ?, ?), (45, ?, ?), (46, ?, ?), (47, ?, ?), (48,"
    " ?, ?), (49, ?, ?), (50, ?, ?), (51, ?, ?), (52, ?, ?), (53, ?, ?), (54, ?, ?), (55, ?, "
    "?), (56, ?, ?), (57, ?, ?), (58, ?, ?), (59, ?, ?), (60, ?, ?), (61, ?, ?), (62, ?, ?), "
    "(63, ?, ?)) SELECT group_concat(asked_1.place) AS group_concat_1 FROM asked_1 WHERE "
    "(EXISTS (SELECT 1 FROM history WHERE history.slot = asked_1.slot AND history.link = "
    "asked_1.link)) OR (EXISTS (SELECT 1 FROM current WHERE current.slot = asked_1.slot AND "
    "current.link = asked_1.link))"
)
CURRENT_N = "SELECT current.n FROM current WHERE current.slot = ? AND current.link = ?"
VERSION = (
    f"SELECT {_ROW} FROM history WHERE history.slot = ? AND history.link = ? AND "
    "history.version = ?"
)
AS_OF = (
    f"SELECT {_ROW} FROM history WHERE history.slot = ? AND history.link = ? AND history.n + 0"
    " <= ? AND history.updated_us <= ? ORDER BY history.version DESC LIMIT 1 OFFSET 0"
)
AFTER_VERSION = (
    f"SELECT {_ROW} FROM history WHERE history.slot = ? AND history.link = ? AND "
    "history.version > ? ORDER BY history.version LIMIT 1 OFFSET 0"
)
HISTORY = (
    f"SELECT {_ROW} FROM history WHERE history.slot = ? AND history.link = ? AND "
    "history.version < ? AND history.n + 0 <= ? ORDER BY history.version DESC LIMIT ? OFFSET "
    "0"
)
ROWS = (
    f"SELECT {_ROW} FROM history WHERE history.slot = ? AND history.n >= ? AND history.n <= ? "
    "ORDER BY history.n"
)
ROWS_AFTER = (
    f"SELECT {_ROW} FROM history WHERE history.slot = ? AND history.n > ? AND history.n <= ? "
    "ORDER BY history.n LIMIT ? OFFSET 0"
)
LAST_N = (
    "SELECT history.n FROM history WHERE history.slot = ? ORDER BY history.n DESC LIMIT 1 OFFSET 0"
)
LINKS = (
    "SELECT json_group_array(json_array(anon_1.slot, anon_1.link, anon_1.version)) AS "
    "json_group_array_1 FROM (SELECT current.slot AS slot, current.link AS link, "
    "current.version AS version FROM current WHERE current.deleted = 0 AND current.link >= ? "
    "AND current.link < ? ORDER BY current.link, current.slot LIMIT ? OFFSET 0) AS anon_1"
)
LINKS_BEYOND = (
    "SELECT json_group_array(json_array(anon_1.slot, anon_1.link)) AS json_group_array_1 FROM"
    " (SELECT history.slot AS slot, history.link AS link FROM json_each(?) AS anon_2 JOIN "
    'history ON history.slot = anon_2."key" AND history.n > anon_2.value LIMIT ? OFFSET 0) AS'
    " anon_1"
)
BOUNDED = (
    "SELECT history.version, history.deleted FROM history WHERE history.slot = ? AND "
    "history.link = ? AND history.n + 0 <= ? ORDER BY history.version DESC LIMIT 1 OFFSET 0"
)
LIVE = "SELECT 1 FROM current WHERE current.slot = ? AND current.link = ? AND current.deleted = 0"
COUNT = (
    "SELECT current.slot, count(*) AS count_1 FROM current WHERE current.deleted = 0 AND "
    "current.link >= ? AND current.link < ? AND instr(substr(current.link, ?), '/') = 0 GROUP"
    " BY current.slot"
)
DIGESTS = (
    "SELECT current.link, current.version, (SELECT history.digest FROM history WHERE "
    "history.slot = current.slot AND history.link = current.link AND history.version = "
    "current.version) AS anon_1 FROM current WHERE current.slot = ? AND current.deleted = 0"
)
