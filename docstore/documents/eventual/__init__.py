"""Levels 1 and 2: documents that each side of a network partition may write, equal afterwards.

`lineage` (which version came of which) -> `branches` (one document: its winner and the branches
that lost) -> `execute` (updates and reads) and `spread` (to the other replicas). Pure, like the
other machines. Nothing here is fenced: no ballot, no quorum.
"""
