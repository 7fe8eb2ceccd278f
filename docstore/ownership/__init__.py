"""Who may act: policies that pick an owner, side by side, and the one fence that all obey.

| policy | who is chosen | what it governs | its fence |
|---|---|---|---|
| `by_hash.py` | the nearest live node by SHA-256 | slots of documents | epoch (`ballot.py`) |
| `by_vote.py` | whom a majority voted for | the group's configuration | generation |
| `elector.py` | the same, alone at any instant | a user's own processes | generation |
| `by_lag.py` | the replica in sync that lags least | partitions of streams | epoch (`ballot.py`) |
| `by_store.py` | the first in a document's queue | locks, elections | token: a row's version |
| `by_induction.py` | who proves an assignment | roles, consumer groups | token: a row's version |

Whoever was chosen may act late. What keeps data whole is never the choice but the fence: a number
that only grows, and that whoever is asked to act compares with the greatest it has seen. Until
when a holder may believe without asking is `proof.py`.
"""
