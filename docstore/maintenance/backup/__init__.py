"""Backups of a group: its logs up to a cut, in files, and the disks of a new group made of them.

    manifest.py     what belongs to a backup, and which one it goes on from
    directory.py    a chain of backups on disk: written durably, read in order
    taking.py       from the nodes of a group that runs into a directory
    verifying.py    is all of it there, and as it was written
    anew.py         what a new group may not take over as it stands
    restoring.py    from a directory into the data directory of a node that was never started

`reads/blocks.py` is the format of rows in a file.

A backup holds rows, and a cut says up to which (decision 61). The first of a directory has all that
is kept of each slot; the next ones have what came since.
"""
