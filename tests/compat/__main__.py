"""`python -m tests.compat`: write what the present protocol says and keeps, once for all."""

import json
import sys

from docstore.maintenance.backup.manifest import FORMAT
from docstore.wire.link_messages import PROTOCOL
from tests.compat import backups, golden, stores

FRAMES = golden.file_of(PROTOCOL)
STORE = stores.file_of(PROTOCOL)
BACKUP = backups.file_of(FORMAT)

if __name__ == "__main__":
    if FRAMES.exists() and STORE.exists() and BACKUP.exists():
        sys.exit("it is there: what was written once is not written anew")
    if not FRAMES.exists():
        FRAMES.write_text(json.dumps(golden.present(), indent=1) + "\n")
    if not STORE.exists():
        stores.make(STORE)
    if not BACKUP.exists():
        backups.make(BACKUP)
