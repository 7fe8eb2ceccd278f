"""Delivery of webhooks: read a subscription's changes, sign and POST them, retry until accepted."""
