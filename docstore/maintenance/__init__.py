"""Background work of a node: repair, expiry, resync, backups, webhook delivery, declarations."""
