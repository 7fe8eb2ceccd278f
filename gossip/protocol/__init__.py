"""The rules of membership as a pure machine: an event in, a list of effects out.

Nothing in this folder waits, reads a clock, opens a socket or draws from a global source of
randomness. `swim.py` joins the parts; each part knows `events`, `effects` and `membership`.
"""
