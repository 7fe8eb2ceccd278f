"""The rules of membership: an event comes in, a list of effects goes out.

Nothing in this folder waits, reads a clock, opens a socket or draws from a global source of
randomness. `swim.py` joins the parts; each part knows `events`, `effects` and `membership`.
"""
