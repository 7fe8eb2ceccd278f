"""The console: what a browser shows of a node, from files that the node serves itself."""
