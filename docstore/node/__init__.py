"""One node: its parts, how it starts, what it serves, what it says of itself, how it stops.

    closed: `parts.py` (a disk, links, somebody to ask) --the group is known--> `running.py`

| file | what |
|---|---|
| `process.py` | a node as a process: event loop, signals, exit code |
| `node.py` | builds all parts, runs and stops them; the only file that knows every part |
| `gate.py` | where requests come in, or are told why not |
| `backend.py` | what the HTTP face can ask of a node |
| `status.py` | the pages under /core |
| `quarantine.py` | keeps a damaged disk out of use |
"""
