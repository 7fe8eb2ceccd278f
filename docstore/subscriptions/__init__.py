"""Subscriptions: changes of a path, sent to the URL of a receiver (webhooks).

A subscription is a document (`services/subscriptions.py`), and the owner of its slot delivers. So
one node delivers at a time, the next owner of the slot takes over, and every node can read the mark
of what was delivered.

    delivery.py   the next step of one subscription: the rules, pure
    events.py     the events that reach it; effects.py the effects that it asks for

    targets.py    which URLs may be called, and which addresses; settings.py what operators set
    signing.py    signatures by which a receiver recognises our calls
    sealing.py    how a secret is kept in a document that many may read

`maintenance/webhooks/` performs the effects: it reads changes, resolves names, calls receivers.

Decision: docs/decisions/0063-subscriptions-are-delivered-by-their-owner.md.
"""
