"""The road of an operation: forward, serve, handle, propose, learn, decide; and what is read."""
