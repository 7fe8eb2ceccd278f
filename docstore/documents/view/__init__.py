"""A read-only view of a replica, for the shells of a node."""
