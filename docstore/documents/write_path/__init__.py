"""The steps of a request: forward, serve, handle, propose, learn, decide; and confirmed reads."""
