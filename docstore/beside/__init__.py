"""What every machine beside the replica shares: a view of the group, and documents as a client.

Such a machine (streams, sessions) stores what must survive in ordinary documents, which it asks
for as any client does, and never looks into the replica but through `view.py`.
"""
