"""Upkeep: what a node does for its documents while nobody asks.

Expiry deletes what is over, repair looks for what a disk has lost, a resynchronisation brings
replicas to their owner, and named snapshots keep what would be let go of.
"""
