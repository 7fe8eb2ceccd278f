"""Links: what nodes say to each other, as bytes on TCP connections.

`peers` keeps one connection per direction and pair, `frames` packs what `wire.py` names, and
`questions` lets the nodes' services ask each other beside the protocol.
"""
