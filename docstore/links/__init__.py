"""Links: what nodes say to each other, as bytes on TCP connections.

`peers` keeps one connection per direction and pair, `frames` packs what `wire.py` names, and `rpc`
lets the nodes' services call each other beside the protocol: `requests` says with what.
"""
