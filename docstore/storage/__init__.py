"""Bytes in order, durable when told so, verified when read. The contract is `store.py`.

`ledger.py` is the contract in memory, without a wait; `testing/memory.py` wraps it. For real disks:
`tables.py` says what the file looks like, `packing.py` what a line of it holds, `writing.py`
and `reading.py` do the work on one SQLite connection, and `sqlite.py` gives each connection
its thread and the loop its answers.
"""
