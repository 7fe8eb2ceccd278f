"""Conditions on documents: parsed from text, translated to SQL."""
