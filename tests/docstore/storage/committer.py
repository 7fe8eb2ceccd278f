"""A process that commits rows one by one and prints each result; for tests that kill it.

Prints "boot N", then the n of each row once it is durable, or the class of the error.
"""

import asyncio
import os
import sys
from pathlib import Path

from docstore.errors import StoreError
from docstore.storage.store import Append
from tests.docstore.storage.logs import Author
from tests.docstore.storage.small import small


async def main(path: Path, rows: int) -> None:
    store = small(path)
    recovered = await store.open()
    end = recovered.slots[1].end if recovered.slots else 0
    author = Author(ends={1: end})
    print("boot", recovered.boot, flush=True)
    for _ in range(rows):
        row = author.row(1, f"/notes/{author.ends[1]}")
        try:
            await store.commit([Append([row])])
        except StoreError as error:
            print(type(error).__name__, flush=True)
        else:
            print(row.n, flush=True)
    # End without closing, as a node does that cannot trust its disk.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
