"""Whole nodes in virtual time: the real HTTP face, links, driver and SQL on simulated hosts."""
