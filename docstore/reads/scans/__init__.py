"""Scans read whole slots in pages, in processes of their own, so that clients hardly notice.

| file | content |
|---|---|
| `scanner.py`, `slot_positions.py` | cuts, and the node's side of all scans |
| `barrier.py` | a causally consistent cut |
| `feed.py` | changes beyond a cut |
| `queries.py`, `searches.py` | queries over the whole group, and the answers of each replica |
| `pool.py`, `worker.py` | processes that read for the node |
| `batches.py`, `cold_slots.py`, `segments.py` | pages as Arrow; cold slots cached as columns |

`query/` holds the pure part: cuts and their names, requests, SQL statements, pages.

A page is one short statement. Its consistency comes from the cut (decided row numbers never
change), not from an open transaction, so a slow reader pins no snapshot and the file's WAL stays
short.
"""
