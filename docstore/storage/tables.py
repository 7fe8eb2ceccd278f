"""Texts of the statements that `storage.described.documents` describes. Do not edit."""

from docstore.storage.inserts import MANY_ROWS, inserts

CREATE = [
    (
        "\n"
        "CREATE TABLE branches (\n"
        "\tslot INTEGER NOT NULL, \n"
        "\tn INTEGER NOT NULL, \n"
        "\tepoch INTEGER NOT NULL, \n"
        "\towner TEXT NOT NULL, \n"
        "\tlink TEXT NOT NULL, \n"
        "\tversion INTEGER NOT NULL, \n"
        "\taction TEXT NOT NULL, \n"
        "\tupdated_us INTEGER NOT NULL, \n"
        "\tdeleted INTEGER NOT NULL, \n"
        "\tsignature BLOB NOT NULL, \n"
        "\toperation BLOB NOT NULL, \n"
        "\tdigest BLOB NOT NULL, \n"
        "\tstate BLOB NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\tstanding INTEGER NOT NULL, \n"
        "\texpires_us INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (n)\n"
        ")\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE current (\n"
        "\tslot INTEGER NOT NULL, \n"
        "\tlink TEXT NOT NULL, \n"
        "\tversion INTEGER NOT NULL, \n"
        "\tn INTEGER NOT NULL, \n"
        "\tdeleted INTEGER NOT NULL, \n"
        "\texpires_us INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (slot, link)\n"
        ")\n"
        " WITHOUT ROWID\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE cursors (\n"
        "\tdisk TEXT NOT NULL, \n"
        "\tconfiguration INTEGER NOT NULL, \n"
        "\tn INTEGER NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (disk)\n"
        ")\n"
        " WITHOUT ROWID\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE history (\n"
        "\tslot INTEGER NOT NULL, \n"
        "\tn INTEGER NOT NULL, \n"
        "\tepoch INTEGER NOT NULL, \n"
        "\towner TEXT NOT NULL, \n"
        "\tlink TEXT NOT NULL, \n"
        "\tversion INTEGER NOT NULL, \n"
        "\taction TEXT NOT NULL, \n"
        "\tupdated_us INTEGER NOT NULL, \n"
        "\tdeleted INTEGER NOT NULL, \n"
        "\tsignature BLOB NOT NULL, \n"
        "\toperation BLOB NOT NULL, \n"
        "\tdigest BLOB NOT NULL, \n"
        "\tstate BLOB NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (slot, link, version)\n"
        ")\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE journal (\n"
        '\t"key" BLOB NOT NULL, \n'
        "\tnumber INTEGER NOT NULL, \n"
        "\tstamp BLOB NOT NULL, \n"
        "\talone INTEGER NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\twritten INTEGER NOT NULL\n"
        ")\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE node (\n"
        "\tformat INTEGER NOT NULL, \n"
        "\tstore_id TEXT NOT NULL, \n"
        "\tboot INTEGER NOT NULL, \n"
        "\tconfiguration BLOB, \n"
        "\tschema INTEGER NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (format)\n"
        ")\n"
        "\n"
    ),
    (
        "\n"
        "CREATE TABLE slots (\n"
        "\tslot INTEGER NOT NULL, \n"
        "\tpromised_epoch INTEGER NOT NULL, \n"
        "\tpromised_owner TEXT NOT NULL, \n"
        "\tadopted_epoch INTEGER NOT NULL, \n"
        "\tadopted_owner TEXT NOT NULL, \n"
        "\treigns BLOB NOT NULL, \n"
        "\tkept INTEGER NOT NULL, \n"
        "\tfloor INTEGER NOT NULL, \n"
        "\tdecided INTEGER NOT NULL, \n"
        "\tstatus TEXT NOT NULL, \n"
        "\tchecksum INTEGER NOT NULL, \n"
        "\tPRIMARY KEY (slot)\n"
        ")\n"
        "\n"
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
LINKS_ABOVE = "SELECT history.link \nFROM history \nWHERE history.slot = ? AND history.n > ?"
CUT = "DELETE FROM history WHERE history.slot = ? AND history.n > ?"
POINTER_BELOW = (
    "SELECT history.slot, history.link, history.version, history.n, history.deleted, "
    "history.state \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.link = ? ORDER BY history.version DESC\n"
    " LIMIT 1 OFFSET 0"
)
LINKS_BETWEEN = (
    "SELECT history.link \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.n > ? AND history.n <= ?"
)
NEWEST_VERSION = (
    "SELECT max(history.version) AS max_1 \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.link = ? AND history.n + 0 <= ?"
)
SUPERSEDED = (
    "DELETE FROM history WHERE history.slot = ? AND history.link = ? AND history.version < ? "
    "AND history.n + 0 <= ?"
)
TOMBSTONES = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM current JOIN history ON history.slot = current.slot AND history.link = current.link"
    " AND history.version = current.version \n"
    "WHERE current.slot = ? AND current.deleted = 1 AND current.n <= ? AND history.updated_us"
    " < ? ORDER BY current.n\n"
    " LIMIT ? OFFSET 0"
)
EXPIRED = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM current JOIN history ON history.slot = current.slot AND history.link = current.link"
    " AND history.version = current.version \n"
    "WHERE current.deleted = 0 AND current.expires_us > 0 AND current.expires_us < ? AND "
    "(current.expires_us, current.slot, current.n) > (?, ?, ?) ORDER BY current.expires_us, "
    "current.slot, current.n\n"
    " LIMIT ? OFFSET 0"
)
WITH_AGENDA = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM current JOIN history ON history.slot = current.slot AND history.link = current.link"
    " AND history.version = current.version \n"
    "WHERE current.slot = ? AND current.link >= ? AND current.link < ? AND "
    "substr(history.operation, 1, 1) = x'9c' ORDER BY current.link"
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
    "node.checksum \n"
    "FROM node"
)
JOURNAL = (
    'SELECT journal."key", journal.number, journal.stamp, journal.alone, journal.checksum, '
    "journal.written \n"
    "FROM journal"
)
SLOT = (
    "SELECT slots.slot, slots.promised_epoch, slots.promised_owner, slots.adopted_epoch, "
    "slots.adopted_owner, slots.reigns, slots.kept, slots.floor, slots.decided, slots.status,"
    " slots.checksum \n"
    "FROM slots \n"
    "WHERE slots.slot = ?"
)
SLOTS = (
    "SELECT slots.slot, slots.promised_epoch, slots.promised_owner, slots.adopted_epoch, "
    "slots.adopted_owner, slots.reigns, slots.kept, slots.floor, slots.decided, slots.status,"
    " slots.checksum \n"
    "FROM slots ORDER BY slots.slot"
)
LAST_ROW_BEFORE_SLOT = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM history \n"
    "WHERE history.slot < ? ORDER BY history.slot DESC, history.n DESC\n"
    " LIMIT 1 OFFSET 0"
)
ENDS_BY_POINTERS = (
    "SELECT current.slot, max(current.n) AS max_1 \n"
    "FROM current GROUP BY current.slot ORDER BY current.slot"
)
END_BY_POINTERS = "SELECT max(current.n) AS max_1 \nFROM current \nWHERE current.slot = ?"
NEWEST = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum, (SELECT current.n \n"
    "FROM current \n"
    "WHERE current.slot = history.slot AND current.link = history.link) AS anon_1 \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.link = ? AND history.n + 0 <= ? ORDER BY "
    "history.version DESC\n"
    " LIMIT 1 OFFSET 0"
)
USED = (
    "WITH asked_1(place, slot, link) AS \n"
    "(VALUES (0, ?, ?), (1, ?, ?), (2, ?, ?), (3, ?, ?), (4, ?, ?), (5, ?, ?), (6, ?, ?), (7,"
    " ?, ?), (8, ?, ?), (9, ?, ?), (10, ?, ?), (11, ?, ?), (12, ?, ?), (13, ?, ?), (14, ?, "
    "?), (15, ?, ?), (16, ?, ?), (17, ?, ?), (18, ?, ?), (19, ?, ?), (20, ?, ?), (21, ?, ?), "
    "(22, ?, ?), (23, ?, ?), (24, ?, ?), (25, ?, ?), (26, ?, ?), (27, ?, ?), (28, ?, ?), (29,"
    " ?, ?), (30, ?, ?), (31, ?, ?), (32, ?, ?), (33, ?, ?), (34, ?, ?), (35, ?, ?), (36, ?, "
    "?), (37, ?, ?), (38, ?, ?), (39, ?, ?), (40, ?, ?), (41, ?, ?), (42, ?, ?), (43, ?, ?), "
    "(44, ?, ?), (45, ?, ?), (46, ?, ?), (47, ?, ?), (48, ?, ?), (49, ?, ?), (50, ?, ?), (51,"
    " ?, ?), (52, ?, ?), (53, ?, ?), (54, ?, ?), (55, ?, ?), (56, ?, ?), (57, ?, ?), (58, ?, "
    "?), (59, ?, ?), (60, ?, ?), (61, ?, ?), (62, ?, ?), (63, ?, ?))\n"
    " SELECT group_concat(asked_1.place) AS group_concat_1 \n"
    "FROM asked_1 \n"
    "WHERE (EXISTS (SELECT 1 \n"
    "FROM history \n"
    "WHERE history.slot = asked_1.slot AND history.link = asked_1.link)) OR (EXISTS (SELECT 1"
    " \n"
    "FROM current \n"
    "WHERE current.slot = asked_1.slot AND current.link = asked_1.link))"
)
CURRENT_N = "SELECT current.n \nFROM current \nWHERE current.slot = ? AND current.link = ?"
VERSION = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.link = ? AND history.version = ?"
)
AS_OF = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.link = ? AND history.n + 0 <= ? AND "
    "history.updated_us <= ? ORDER BY history.version DESC\n"
    " LIMIT 1 OFFSET 0"
)
AFTER_VERSION = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.link = ? AND history.version > ? ORDER BY "
    "history.version\n"
    " LIMIT 1 OFFSET 0"
)
HISTORY = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.link = ? AND history.version < ? AND history.n + 0 <="
    " ? ORDER BY history.version DESC\n"
    " LIMIT ? OFFSET 0"
)
ROWS = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.n >= ? AND history.n <= ? ORDER BY history.n"
)
ROWS_AFTER = (
    "SELECT history.slot, history.n, history.epoch, history.owner, history.link, "
    "history.version, history.action, history.updated_us, history.deleted, history.signature,"
    " history.operation, history.digest, history.state, history.checksum \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.n > ? AND history.n <= ? ORDER BY history.n\n"
    " LIMIT ? OFFSET 0"
)
LAST_N = (
    "SELECT history.n \n"
    "FROM history \n"
    "WHERE history.slot = ? ORDER BY history.n DESC\n"
    " LIMIT 1 OFFSET 0"
)
LINKS = (
    "SELECT json_group_array(json_array(anon_1.slot, anon_1.link, anon_1.version)) AS "
    "json_group_array_1 \n"
    "FROM (SELECT current.slot AS slot, current.link AS link, current.version AS version \n"
    "FROM current \n"
    "WHERE current.deleted = 0 AND current.link >= ? AND current.link < ? ORDER BY "
    "current.link, current.slot\n"
    " LIMIT ? OFFSET 0) AS anon_1"
)
LINKS_BEYOND = (
    "SELECT json_group_array(json_array(anon_1.slot, anon_1.link)) AS json_group_array_1 \n"
    "FROM (SELECT history.slot AS slot, history.link AS link \n"
    'FROM json_each(?) AS anon_2 JOIN history ON history.slot = anon_2."key" AND history.n > '
    "anon_2.value\n"
    " LIMIT ? OFFSET 0) AS anon_1"
)
BOUNDED = (
    "SELECT history.version, history.deleted \n"
    "FROM history \n"
    "WHERE history.slot = ? AND history.link = ? AND history.n + 0 <= ? ORDER BY "
    "history.version DESC\n"
    " LIMIT 1 OFFSET 0"
)
LIVE = (
    "SELECT 1 \nFROM current \nWHERE current.slot = ? AND current.link = ? AND current.deleted = 0"
)
COUNT = (
    "SELECT current.slot, count(*) AS count_1 \n"
    "FROM current \n"
    "WHERE current.deleted = 0 AND current.link >= ? AND current.link < ? AND "
    "instr(substr(current.link, ?), '/') = 0 GROUP BY current.slot"
)
DIGESTS = (
    "SELECT current.link, current.version, (SELECT history.digest \n"
    "FROM history \n"
    "WHERE history.slot = current.slot AND history.link = current.link AND history.version = "
    "current.version) AS anon_1 \n"
    "FROM current \n"
    "WHERE current.slot = ? AND current.deleted = 0"
)
