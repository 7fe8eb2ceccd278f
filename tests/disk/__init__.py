"""A disk of which every write is known, so that it may lose power or fail at any of them."""
