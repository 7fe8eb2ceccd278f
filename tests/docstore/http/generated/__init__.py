"""Clients that others' generators make of the description, played against real nodes."""
