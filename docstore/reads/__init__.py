"""Reads of more than one document, or from this node's copy alone.

Listings ask every owner, scans and feeds follow a cut through the logs, a barrier makes one that no
cause crosses, and `local` answers from what this replica knows, without asking anybody.
"""
