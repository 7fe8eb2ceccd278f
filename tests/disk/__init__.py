"""A disk that knows its every write, so that it may lose power or fail at any of them."""
