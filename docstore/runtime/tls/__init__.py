"""TLS: what a node shows of itself, whom it lets in, and that both may change while it runs.

Clients are served over https with the node's certificate. Nodes show theirs to each other (mutual
TLS 1.3), and each is whom its certificate names. `docs/operations.md` says how to set it up.
"""
