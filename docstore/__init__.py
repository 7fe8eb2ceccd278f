"""docstore: a replicated store of versioned JSON documents over HTTP, and of streams of records.

The path of a document write. Any node accepts it, and answers when a majority has it on disk:

    client --PUT /notes/a--> http/fast_path.py
                               | Requested
                               v
                            forward ----- Forward(n2) ---> runtime/links/peers.py --> n2: forward
                               | ours
                               v
                             serve -> handle -> propose -> Send(Propose) -> replicas
                                                  | Persist                    |
                                                  v                            v
                                              own disk              learn -> Persist -> Accepted
                                                  |                            |
                                                decide <-- a quorum has it ----+
                                                  | or the deadline
                                                  v
                                forward -> http/fast_path.py -- 200, 409, 412, 503, 504 -->

The steps are modules of `documents/write_path/`:

| step | file | gives | can end the request with |
|---|---|---|---|
| enters | `http/fast_path.py`, or `http/documents.py` | `Requested` | 400, 404, 413, 415 |
| finds its owner | `forward` | `Forward`, or serves | 503 no owner |
| served | `serve` | the document's newest row | retry: the first answer |
| handled | `handle` | the new state | 404, 409, 412, 422 |
| proposed | `propose` | `Persist`, `Send(Propose)` | 503, before any Send |
| learned | `learn` | `Persist`, then `Accepted`, `AcceptedAll` or `Gap` | - |
| decided | `decide` | the answer | 504: the outcome is unknown |
| or read | `confirm` | the current state | 503 |

The other folders of `documents/`: `leadership/` (which node owns a slot, takeover, handover),
`catchup/` (fill the log of a replica that lags), `membership/` (change the group), `retention/`
(compact and expire), `eventual/` (documents of levels 1 and 2: executed on one node, spread to the
others without ballots or quorums).

The path of a record. The leader of a partition appends it, and commits it when all in-sync replicas
have it on disk. Each partition is a document, whose updates choose its leader:

    http/produce.py -> streams/producing.py -> (leader's node) streams/leader.py -> streams.db
                         streams/follower.py <- Append / Acked -> high watermark -> 200

Leases, locks, elections, roles and consumer groups are in `sessions/`. `machines/` has the parts
that these machines share as clients of documents.

Each package has a floor and imports lower floors only: docs/architecture.md draws them, and a test
enforces them. A machine is pure: `step(event, now) -> effects`, without clock, socket or task.
`runtime/` runs the machines; `node/node.py` builds a node of all parts.
"""

__version__ = "0.1.0"

SERVER = "docstore"
"""Value of the `Server` header of each answer, by which clients recognise a node."""
