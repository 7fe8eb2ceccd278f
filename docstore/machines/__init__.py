"""Parts that the state machines of documents, streams and sessions share. Pure.

Streams and sessions store their durable state in documents, as clients of the group (`updates.py`,
`reading.py`), and see the group through `view.py`.
"""
