"""Rows in order, durable once acknowledged, verified when read. `store.py` is the contract.

`tests/memory/ledger.py` implements it in memory. On disk, `described/` defines tables and
statements, `tables.py` has their texts, and `packing.py` the columns. `writing.py` and `reading.py`
work on one SQLite connection; `sqlite.py` gives each connection a thread and returns the results to
the event loop.
"""
