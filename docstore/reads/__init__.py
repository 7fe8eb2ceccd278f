"""Reads of more than one document, or from this node's copy alone; whole slots are read in `scans`.

Listings ask every owner (`owners.py`), and `local.py` answers from what this replica knows, without
asking anybody.
"""
