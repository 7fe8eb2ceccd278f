"""In-memory stores and a simulated network: to test machines, and programs that use docstore."""
