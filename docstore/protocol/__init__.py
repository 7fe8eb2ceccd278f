"""The road of an update, as a pure machine: events in, effects out, in order.

`replica.py` is the machine; every other file holds one step or one idea of it. Nothing here
awaits, reads a clock or draws a random number: time is handed in, randomness too.
"""
