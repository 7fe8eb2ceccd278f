"""Record streams on replica sets: one leader a partition, elected by the smallest lag.

The path of a record, and the file of each step:

| step | file | can end the request with |
|---|---|---|
| enters | `http/produce.py`, `records.py` | 400, 413, 415 |
| routed | `directory.py`, `producing.py` | 404; 503 no-leader; 504 forwarded without an answer |
| judged | `producer_state.py` | 200 again, 409 fenced, gap, stale |
| appended | `leader.py`, `appending.py` | 503 not-enough-replicas, partition-full: not appended |
| kept, followed | `disk.py`, `catchup.py`, `follower.py` | - |
| committed | `acknowledgements.py`, `high_watermark.py`, by `ownership/by_lag.py` | - |
| answered | `purgatory.py` | 504 undecided: it may have happened |
| read | `fetching.py` | 410 evicted, 416 out of range |

The rules that comments cite (RF1, RC2 ...), and why the whole is safe: `docs/rules.md`.
"""
