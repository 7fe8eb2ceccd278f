"""Values that all packages share: a document and its path, an operation and its answer, JSON.

Plain data and pure functions; nothing here knows of nodes, slots' owners or disks.
"""
