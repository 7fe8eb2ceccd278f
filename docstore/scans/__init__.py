"""Scans: whole slots read in pages, by processes of their own, so that clients hardly notice.

| file | what |
|---|---|
| `cut.py`, `names.py` | up to which row every slot belongs to a snapshot, and how one is named |
| `scanner.py` | where slots stand, what this copy can serve: the node's side of all scans |
| `barrier.py` | one cut that no cause crosses |
| `feed.py` | changes beyond a cut |
| `queries.py`, `searches.py` | queries over the whole group, and what each copy answers |
| `request.py`, `columns.py`, `statements.py` | what is asked, and how SQL says it |
| `pool.py`, `worker.py`, `page.py` | processes that read, and what goes between them and the node |
| `batches.py`, `resting.py`, `segments.py` | pages as Arrow, and slots at rest kept as columns |

A page is one short statement: consistency comes from the cut (row numbers that are decided never
change), not from a transaction that stays open, so a slow reader keeps no snapshot alive and the
log of the file stays short.
"""
