"""The messages that nodes exchange, the frames that carry them, and the versions of both."""
