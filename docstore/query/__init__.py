"""Conditions on documents: read from text, said in SQL."""
