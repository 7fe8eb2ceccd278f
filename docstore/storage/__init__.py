"""Bytes in order, durable when told so, verified when read. The contract is `store.py`.

`ledger.py` is the contract in memory, without a wait; `memory.py` wraps it. For real disks:
`tables.py` says what the file looks like, `writing.py` and `reading.py` do the work on one
SQLite connection, `sqlite.py` gives each connection its thread and the loop its answers.
"""
