"""One node as a process: how it starts, stops, logs, and what it takes of the machine."""
