"""Simulates a network: to test programs that use docstore."""
