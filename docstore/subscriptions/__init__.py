"""Subscriptions: changes of a path, told to somebody's URL (webhooks).

A subscription is a document (`services/subscriptions.py`), and whoever owns its slot delivers: so
one node does at a time, another one takes it over as it takes over the slot, and what has been
taken is known to all of them.

    delivery.py   what is done next about one subscription: the rules, pure
    events.py     what happens to it, effects.py what it wants done
    deliverer.py  performs that, for all subscriptions whose slots this node owns
    reading.py    what is to be told: changes of the feed, or first the documents as they are
    calling.py    one call of somebody else's server, with the bounds that such a call needs
    lookups.py    where the names of receivers lead, asked without keeping anybody waiting

    targets.py    which URLs may be called, and which addresses; settings.py what operators say
    signing.py    how a receiver knows that it is we who call
    sealing.py    how a secret is kept in a document that many may read

Why it is as it is: docs/decisions/0063-subscriptions-are-delivered-by-their-owner.md.
"""
