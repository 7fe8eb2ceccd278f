"""Simulates virtual time, bad links and processes that die, all from a seed, to test protocols."""
