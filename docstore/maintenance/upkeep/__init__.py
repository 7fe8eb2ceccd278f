"""Background upkeep of documents: expiry, scrubbing, resynchronisation, and retention pins."""
