"""Reads of more than one document, or from this node's replica; `scans/` reads whole slots."""
