"""Scans: whole slots read in pages, by processes of their own, so that clients hardly notice.

| file | what |
|---|---|
| `scanner.py` | where slots stand, what this copy can serve: the node's side of all scans |
| `barrier.py` | one cut that no cause crosses |
| `feed.py` | changes beyond a cut |
| `queries.py`, `searches.py` | queries over the whole group, and what each copy answers |
| `pool.py`, `worker.py` | processes that read for the node |
| `batches.py`, `cold_slots.py`, `segments.py` | pages as Arrow, and slots at rest kept as columns |

`query/` holds what scans need of no process: cuts and their names, requests, SQL statements, pages.

A page is one short statement: consistency comes from the cut (row numbers that are decided never
change), not from a transaction that stays open, so a slow reader keeps no snapshot alive and the
log of the file stays short.
"""
