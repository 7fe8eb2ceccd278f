"""What is old is let go of: versions, tombstones, keys of repetition; not what snapshots need."""
