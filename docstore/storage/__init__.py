"""Rows in order, durable once acknowledged, verified when read. `store.py` is the contract.

`testing/ledger.py` implements it in memory. On disk, `schema.py` defines the tables, `tables.py`
the statements, and `packing.py` the columns. `writing.py` and `reading.py` work on one SQLite
connection; `sqlite.py` gives each connection a thread and returns the results to the event loop.
"""
