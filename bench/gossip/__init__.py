"""The figures of `gossip`, beside those that papers and rivals have published."""
