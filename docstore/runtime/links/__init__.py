"""Links: messages between nodes, as frames on TCP connections.

`peers` keeps one connection per direction and pair, `wire/frames.py` packs the messages of `wire/`,
and `rpc` carries the requests of `wire/requests.py` between the services of nodes.
"""
