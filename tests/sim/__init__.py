"""Simulation of a whole cluster of real replicas in one thread and virtual time, from a seed."""
