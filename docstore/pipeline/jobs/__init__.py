"""The jobs of `docstore spark <job>`: a file for each job, with one function.

A job takes a `Work` (session, group, id) and its arguments, and returns a result that is JSON. With
`dry_run` it changes nothing. A job that runs again with the same id repeats nothing.
"""
