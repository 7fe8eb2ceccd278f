"""Subscriptions: changes of a path, told to somebody's URL (webhooks).

A subscription is a document (`services/subscriptions.py`), and whoever owns its slot delivers: so
one node does at a time, another one takes it over as it takes over the slot, and what has been
taken is known to all of them.

    delivery.py   what is done next about one subscription: the rules, pure
    events.py     what happens to it, effects.py what it wants done

    targets.py    which URLs may be called, and which addresses; settings.py what operators say
    signing.py    how a receiver knows that it is we who call
    sealing.py    how a secret is kept in a document that many may read

<<<<<<< HEAD
Why it is as it is: docs/decisions/0063-subscriptions-are-delivered-by-their-owner.md.
=======
`maintenance/webhooks/` performs it: reads the changes, resolves names, calls the receivers.

Why it is as it is: docs/decisions/0063-a-subscription-is-delivered-by-its-owner.md.
>>>>>>> d179b3d (layout: move every module to the floor that it stands on)
"""
