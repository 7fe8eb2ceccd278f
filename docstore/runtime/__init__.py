"""The shells that run the machines: drivers, links to other nodes, TLS, traces and logs."""
