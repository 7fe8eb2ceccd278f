"""Texts and traces that must not change when the product is refactored."""
