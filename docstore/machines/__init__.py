"""The parts that all machines share: documents, streams and sessions.

Streams and sessions store what must survive in documents. They ask for these as clients of the
group do (`updates.py`, `reading.py`), and know of the group what `view.py` says.
"""
