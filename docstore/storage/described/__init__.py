"""Tables and statements in SQLAlchemy Core, from which the texts that nodes use are written.

`python -m docstore.storage.described` writes the texts into `tables.py`, `partition_tables.py` and
`branch_tables.py`. No node imports this package: with SQLAlchemy it would cost each start a sixth
of a second of processor, and 14 MiB. A test compares the texts with what it describes.
"""
