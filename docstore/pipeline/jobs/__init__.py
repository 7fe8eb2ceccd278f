"""What `docstore spark <job>` runs: one file for each job, one function in it.

A job takes a `Work` (session, group, id) and what it is to do, and returns a result that JSON can
say. With `dry_run` it looks and changes nothing. Run again with the same id it does nothing twice.
"""
