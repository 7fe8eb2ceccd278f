"""TLS: the certificates that a node shows and accepts, which may change while it runs.

Clients are served over https with the node's certificate. Nodes show theirs to each other (mutual
TLS 1.3), and each must be the node that its certificate names. See `docs/operations.md`.
"""
