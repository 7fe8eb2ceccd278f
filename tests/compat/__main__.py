"""`python -m tests.compat`: write what the present protocol says and keeps, once for all."""

import json
import sys

from docstore.wire import PROTOCOL
from tests.compat import golden, stores

FRAMES = golden.file_of(PROTOCOL)
STORE = stores.file_of(PROTOCOL)

if __name__ == "__main__":
    if FRAMES.exists() and STORE.exists():
        sys.exit("it is there: what was written once is not written anew")
    if not FRAMES.exists():
        FRAMES.write_text(json.dumps(golden.present(), indent=1) + "\n")
    if not STORE.exists():
        stores.make(STORE)
