"""Catch-up: bring a replica that lags, or is empty, to the log of the slot's owner."""
