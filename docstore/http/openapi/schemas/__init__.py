"""Schemas of bodies with an example of each, a file for each area."""
