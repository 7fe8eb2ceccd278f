"""Clients that external generators create from the description, run against real nodes."""
