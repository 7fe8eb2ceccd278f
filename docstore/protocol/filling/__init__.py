"""How a replica that lags, or has nothing, comes to hold the log of its owner."""
