"""The replica of documents, as a pure machine: events in, effects out, in order.

`replica.py` is the machine; every other file holds one step or one idea of it. Nothing here awaits,
reads a clock or draws a random number: the caller passes in time and randomness.

All steps share `core.py` and its parts:

| file | subject |
|---|---|
| `events.py`, `effects.py`, `wire/messages.py` | the alphabets: in, out, from node to node |
| `peers.py`, `owners.py` | the other members, as heard; the owners of slots |
| `logs.py`, `log.py` | the slots that this node holds, and their logs |
| `term.py` | an owner's state of one slot, for one ballot |
| `document_cache.py`, `clients.py` | in that state: cached documents, unanswered operations |
| `outbox.py` | effects, and those that wait until the disk is durable (P3) |
| `parts.py` | rows of atomic batches, which are never separated (A2) |
| `timing.py`, `clock.py` | times and bounds; the wall clock |

The steps of a request are in `write_path/`; `leadership/`, `catchup/`, `membership/`, `retention/`
and `eventual/` hold the rest. Shells read a replica through `view.py`.

The path of a write, the contract of `step`, the rules that comments cite (P3, SL4 ...) and the
argument for safety: `docs/rules.md`.
"""
