"""Membership: one configuration of members, chosen by vote and changed step by step."""
