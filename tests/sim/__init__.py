"""A whole cluster in one thread and in virtual time, from a seed: the very same Replica.step."""
