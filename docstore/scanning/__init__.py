"""Scans: whole slots read in pages, by processes of their own, so that clients hardly notice.

`request` says what is asked, `statements` says it in SQL, `worker` is the process that reads,
`pool` its owner in the node. A page is one short statement: consistency comes from the cut (row
numbers that are decided never change), not from a transaction that stays open, so a slow reader
keeps no snapshot alive and the log of the file stays short.
"""
