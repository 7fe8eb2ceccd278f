"""One node: builds its parts, joins its group, serves requests, reports its status and stops.

    closed: `parts.py` (disk, links, membership) --the group is known--> `running.py`

| file | contents |
|---|---|
| `process.py` | a node as a process: event loop, signals, exit code |
| `node.py` | builds all parts, runs and stops them; the only file that knows every part |
| `gate.py` | lets requests in, or answers 503 |
| `backend.py` | the node as the HTTP pages use it |
| `status.py` | the pages under /core |
| `quarantine.py` | keeps a damaged disk out of use |
"""
