"""The table of routes: each path with its permissions, methods, descriptions and handlers."""
