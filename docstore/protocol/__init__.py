"""The road of an update, as a pure machine: events in, effects out, in order.

`replica.py` is the machine; every other file holds one step or one idea of it. Nothing here
awaits, reads a clock or draws a random number: time is handed in, randomness too.

The road of a write, the contract of `step`, the rules that comments cite (P3, SL4 ...) and why the
whole is safe: `docs/rules.md`.
"""
