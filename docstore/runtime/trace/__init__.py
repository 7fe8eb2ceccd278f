"""The flight recorder: the last steps of a node's machines, as pages and in the log."""
