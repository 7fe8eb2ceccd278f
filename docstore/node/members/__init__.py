"""The members of the group, as this node knows them, and changes of them.

`founding` finds the group of a node, `joining` asks to be taken in, `lookup` finds the addresses of
other members, `membership` knows which are alive (the only module that uses `gossip`), and `group`
applies the configurations that the register decides.
"""
