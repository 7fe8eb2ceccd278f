"""docstore: a replicated store of versioned JSON documents over HTTP. The road of a PUT.

    client --PUT /notes/a--> http/server.py
                               | Requested
                               v
     route -> owner -> forward ------- Forward(n2) ---> links/peers.py --> (the same road on n2)
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
                                        respond --> http/server.py -- 200, 409, 412, 503, 504 -->

| step | file | gives | can end the road with |
|---|---|---|---|
| enters | `http/server.py`, `http/documents.py` | `Requested` | 400, 413, 415 |
| routed | `protocol/slots.py`, `ownership/by_hash.py` | slot, replica set | 404 no such service |
| owner, forwarded | `protocol/forward.py` | `Forward`, or serves | 503 no owner; 504 in doubt |
| served | `protocol/serve.py` | the document's newest row | repetition: the first answer |
| handled | `protocol/handle.py` | the new state | 404, 409, 412, 422 |
| proposed | `protocol/propose.py` | `Persist`, `Send(Propose)` | 503 no quorum, before any Send |
| learned | `protocol/learn.py` | `Persist`, then `Accepted` or `Gap` | - |
| decided | `protocol/decide.py` | the answer | 504: it may have happened |
| read | `protocol/confirm.py`, `protocol/read_index.py` | what is current, of one or all | 503 |

Side roads: `protocol/takeover.py` (a new owner), `protocol/catchup.py` (a replica that lags),
`protocol/copying.py` (one that has nothing), `protocol/depose.py` (a reign ends),
`protocol/handover.py` (a slot is given away by consent), `protocol/stillness.py` (a moment of
rest, for a cut through all slots), `protocol/liveness.py` (who is heard),
`protocol/clock.py` (what time it is), `protocol/leases.py` (what readers were promised),
`protocol/trim.py` (old versions go). Who the members are:
`protocol/register.py` (chosen by vote), `protocol/voters.py` (of whom),
`protocol/change.py` (what a change is made of),
`protocol/readiness.py` (what its next step waits for) and `protocol/reconfigure.py` (going over to
the next configuration).

Documents of levels 1 and 2 leave this road where they are served: `converge/` executes them on one
node and brings them to the others, without ballots and quorums.

What stands beside the road, and who may await there (pure: no clock, no socket, no task):

| folder | what it is | awaits |
|---|---|---|
| `ownership/` | who may act: policies that pick an owner, and one fence that all obey | no |
| `services/` | what authors and declarations say of their documents | two files |
| `query/` | conditions and aggregates on documents | no |
| `storage/` | rows in order on a disk | the stores |
| `links/` | messages as bytes between nodes | yes, `frames.py` not |
| `members/` | who belongs to the group; the only place that meets `gossip` | yes |
| `reads/`, `scanning/` | reads of more than one document; processes that read whole slots | yes |
| `upkeep/` | expiry, repair, resynchronisation | yes |
| `process/` | start, stop, logs of one node | yes |
| `trace/` | what a node did: the last steps of its machines, kept by the drivers | no |
| `http/` | the face towards clients, by way of `face.py` and `administration.py` | yes |
| `client/`, `cli/`, `pipeline/` | people's side: only HTTP from here on; Spark is met last | yes |

`driver.py` performs what the protocol asks; `node.py` builds it all, and is the only one to know
every part.
"""

__version__ = "0.1.0"
