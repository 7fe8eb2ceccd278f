"""The HTTP face: translates between clients and the node behind it, and decides nothing."""
