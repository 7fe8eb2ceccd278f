"""The replica of documents, as a pure machine: events in, effects out, in order.

`replica.py` is the machine; every other file holds one step or one idea of it. Nothing here
awaits, reads a clock or draws a random number: time is handed in, randomness too.

What all steps share is `core.py`, and what it is made of:

| file | what it knows |
|---|---|
| `events.py`, `effects.py`, `wire/messages.py` | the alphabets: in, out, from node to node |
| `peers.py`, `owners.py` | the other members, as they are heard; who owns a slot, or should |
| `logs.py`, `log.py` | the slots that this node holds, and their logs |
| `term.py` | what an owner knows of one slot, for one ballot |
| `document_cache.py`, `clients.py` | of that: documents in memory, operations under way |
| `outbox.py` | what leaves, and what waits until it is durable (P3) |
| `parts.py` | rows that belong together, and are never parted (A2) |
| `timing.py`, `clock.py` | times and bounds; the wall clock |

The steps of a request are in `write_path/`; `leadership/`, `catchup/`, `membership/`, `retention/`
and `eventual/` hold the rest. Shells read a replica through `view/`.

The road of a write, the contract of `step`, the rules that comments cite (P3, SL4 ...) and why the
whole is safe: `docs/rules.md`.
"""
