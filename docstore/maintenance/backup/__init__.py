"""Backups: the logs of a group up to a cut, in files, from which a new group can be made.

    manifest.py         content of a backup, and its predecessor in the chain
    directory.py        a chain of backups on disk: written durably, read in order
    taking.py           reads a backup from a running group into a directory
    verifying.py        checks that a chain is complete and undamaged
    reset_documents.py  documents that a new group must reset: topics and offsets
    restoring.py        makes the data directory of a founder from a chain

`reads/blocks.py` is the format of rows in a file.

The first backup of a directory has all rows that the group keeps up to its cut; each later
backup has the rows since the previous one (decision 61).
"""
