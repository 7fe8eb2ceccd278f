"""Transcripts: behaviours of whole nodes, as the flight recorder tells them, kept as text files.

`python -m tests.transcripts` writes docs/transcripts/ anew. A transcript changes whenever the
messages of a behaviour change: read the difference before committing it.
"""
