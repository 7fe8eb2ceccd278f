"""Members: who belongs to the group, as this node knows it, and how that changes.

`founding` says how a node comes to know its group, `joining` how it asks to be taken in, `lookup`
where the others are reached,
`membership` who of them is alive (the only place where `gossip` is met), and `group` puts into
effect what the register decided.
"""
