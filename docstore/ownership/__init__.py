"""Ownership: policies that pick an owner, side by side, and the one fence that all obey.

| policy | it picks | it governs | its fence |
|---|---|---|---|
| `by_hash.py` | the nearest live node by SHA-256 | slots of documents | epoch (`ballot.py`) |
| `by_vote.py` | the node that a majority voted for | the group's configuration | generation |
| `elector.py` | the same, alone at any instant | a user's own processes | generation |
| `by_lag.py` | the replica in sync that lags least | partitions of streams | epoch (`ballot.py`) |
| `by_store.py` | the first in a document's queue | locks, elections | token: a row's version |
| `by_induction.py` | the process that proves its assignment | roles, consumer groups | token: a
row's version |

An owner may act late, after another node was picked. So not the choice but the fence protects data:
a number that only grows, and that each receiver compares with the greatest it has seen. `proof.py`
says how long a holder may act without asking.
"""
