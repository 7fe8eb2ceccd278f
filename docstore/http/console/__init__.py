"""The console: shows a node in a browser, from files that the node serves itself."""
