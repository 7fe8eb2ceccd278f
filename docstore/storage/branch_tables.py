"""Texts of the statements that `storage.described.branches` describes. Do not edit."""

_ROW = (
    "branches.slot, branches.n, branches.epoch, branches.owner, branches.link, "
    "branches.version, branches.action, branches.updated_us, branches.deleted, "
    "branches.signature, branches.operation, branches.digest, branches.state, "
    "branches.checksum"
)
ARRIVE = (
    "INSERT INTO branches (slot, n, epoch, owner, link, version, action, updated_us, deleted,"
    " signature, operation, digest, state, checksum, standing, expires_us) VALUES (?, ?, ?, "
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
STAND = "UPDATE branches SET standing=? WHERE branches.n = ?"
PRUNE = "DELETE FROM branches WHERE branches.n = ?"
SAVE_CURSOR = (
    "INSERT INTO cursors (disk, configuration, n, checksum) VALUES (?, ?, ?, ?) ON CONFLICT "
    "(disk) DO UPDATE SET configuration = excluded.configuration, n = excluded.n, checksum = "
    "excluded.checksum"
)
HEADS = (
    f"SELECT {_ROW} FROM branches WHERE branches.slot = ? AND branches.link = ? AND "
    "branches.standing > 0 ORDER BY branches.n"
)
LINES = (
    f"SELECT {_ROW} FROM branches WHERE branches.slot = ? AND branches.link = ? ORDER BY "
    "branches.version DESC, branches.n DESC LIMIT ? OFFSET 0"
)
ARRIVALS = f"SELECT {_ROW} FROM branches WHERE branches.n > ? ORDER BY branches.n LIMIT ? OFFSET 0"
AGED = (
    f"SELECT {_ROW} FROM branches WHERE branches.standing != 1 AND branches.standing = ? AND "
    "branches.updated_us < ? ORDER BY branches.updated_us, branches.n LIMIT ? OFFSET 0"
)
EXPIRED = (
    f"SELECT {_ROW} FROM branches WHERE branches.standing = 1 AND branches.deleted = 0 AND "
    "branches.expires_us > 0 AND branches.expires_us < ? AND (branches.expires_us, "
    "branches.slot, branches.n) > (?, ?, ?) ORDER BY branches.expires_us, branches.slot, "
    "branches.n LIMIT ? OFFSET 0"
)
ARRIVED = "SELECT max(branches.n) AS max_1 FROM branches"
IN_CONFLICT = (
    "SELECT count(DISTINCT branches.link) AS count_1 FROM branches WHERE branches.standing !="
    " 1 AND branches.standing = 2"
)
CURSORS = "SELECT cursors.disk, cursors.configuration, cursors.n, cursors.checksum FROM cursors"
LINKS = (
    "SELECT json_group_array(json_array(anon_1.slot, anon_1.link, anon_1.version)) AS "
    "json_group_array_1 FROM (SELECT branches.slot AS slot, branches.link AS link, "
    "branches.version AS version FROM branches WHERE branches.standing = 1 AND "
    "branches.deleted = 0 AND branches.link >= ? AND branches.link < ? ORDER BY "
    "branches.link, branches.slot LIMIT ? OFFSET 0) AS anon_1"
)
COUNT = (
    "SELECT branches.slot, count(*) AS count_1 FROM branches WHERE branches.standing = 1 AND "
    "branches.deleted = 0 AND branches.link >= ? AND branches.link < ? AND "
    "instr(substr(branches.link, ?), '/') = 0 GROUP BY branches.slot"
)
