"""docstore: a replicated store of versioned JSON documents over HTTP, and of streams of records.

The road of a document. A PUT enters any node, and is answered when a majority has it on disk:

    client --PUT /notes/a--> http/plain.py
                               | Requested
                               v
                            forward ----------- Forward(n2) ---> links/peers.py --> n2: forward
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
                                forward -> http/plain.py -- 200, 409, 412, 503, 504 -->

| step | file | gives | can end the road with |
|---|---|---|---|
| enters | `http/plain.py`, or `http/documents.py` | `Requested` | 400, 404, 413, 415 |
| finds its owner | `protocol/road/forward.py` | `Forward`, or serves | 503 no owner |
| served | `protocol/road/serve.py` | the document's newest row | repetition: the first answer |
| handled | `protocol/road/handle.py` | the new state | 404, 409, 412, 422 |
| proposed | `protocol/road/propose.py` | `Persist`, `Send(Propose)` | 503, before any Send |
| learned | `protocol/road/learn.py` | `Persist`, then `Accepted`, `Took` or `Gap` | - |
| decided | `protocol/road/decide.py` | the answer | 504: it may have happened |
| or read | `protocol/road/confirm.py` | what is current | 503 |

Beside the road, in `protocol/`: `leadership/` (who owns a slot, and how that ends), `filling/` (a
replica that lags is brought up), `group/` (who the members are), `history/` (what is old goes).
Documents of levels 1 and 2 leave the road where they are served: `converge/` executes them on one
node and brings them to the others, without ballots and quorums.

The road of a record. It is appended by the leader of its partition, and committed when the whole
live replica set has it on disk. Each partition is a document, whose updates choose its leader:

    http/produce.py -> streams/producing.py -> (leader's node) streams/leader.py -> streams.db
                         streams/follower.py <- Append / Acked -> high watermark -> 200

What lives only while somebody is heard (leases, locks, elections, roles, groups) is in `sessions/`;
what all these machines share, as clients of documents, is in `beside/`.

The rooms, and who may await there (pure: no clock, no socket, no task):

| folder | what it is | awaits |
|---|---|---|
| `model/` | values: documents, paths, operations, JSON | no |
| `ownership/` | who may act: policies that pick an owner, and one fence that all obey | no |
| `protocol/`, `converge/` | documents: `Replica.step(event, now) -> effects` | no |
| `streams/`, `sessions/`, `beside/` | the machines beside it | drivers and faces |
| `service.py` | what the author of a service imports: `Service`, what its handlers are given | no |
| `services/` | what authors and declarations say of their documents | two files |
| `query/` | conditions and aggregates on documents | no |
| `storage/` | rows in order on a disk | the stores |
| `links/` | messages as bytes between nodes | yes, `links/frames.py` not |
| `members/` | who belongs to the group; the only place that meets `gossip` | yes |
| `reads/`, `scans/` | reads of more than one document; processes that read whole slots | yes |
| `subscriptions/` | changes told to servers of others (webhooks) | three files |
| `upkeep/` | expiry, repair, resynchronisation | yes |
| `node/` | one node: its parts, start, stop, pages | yes |
| `trace/` | what a node did: the last steps of its machines, kept by the drivers | no |
| `http/` | the face towards clients; `node/backend.py` is behind it | yes |
| `doctor/` | what is wrong with a group, from what its nodes say of themselves | no |
| `client/`, `cli/`, `pipeline/` | people's side: only HTTP from here on; Spark is met last | yes |

`driver.py` performs what the protocol asks, in turns of `stepping.py`; `node/node.py` builds it
all, and is the only one to know every part.
"""

__version__ = "0.1.0"

SERVER = "docstore"
"""What each answer of a node has as its `Server`, by which clients tell it from other servers."""
