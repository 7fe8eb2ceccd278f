"""Findings on a group, from the pages of its nodes, or on a stopped node's data directory."""
