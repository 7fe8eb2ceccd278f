"""Texts and traces that stay as they are while the inside of the product is moved about."""
