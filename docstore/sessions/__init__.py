"""Sessions: leases and members of groups, which end when their holder is no longer heard.

Each lease, election, lock and group is a document of level 3. The owner of the document keeps in
memory the times until which it counts holders and members as alive. The steps of a keep-alive, or
of any other call, and the file of each:

| step | file | other ends of the call |
|---|---|---|
| enters, goes to the owner | `calling.py` | 503 no-owner, no-quorum: nothing is proven |
| does this node own the document, under which term? | `owned.py` | asked again elsewhere |
| the deadline moves | `deadlines.py` | - |
| a read begun after the arrival | `confirming.py` | asked again elsewhere |
| judged, by the part of its kind | `leasing.py` | 404, 410 |
| of a group: heard, and answered | `coordinating.py`, `joining.py` | 404, 409 |
| waits until the document changes | `waiting.py` | 202 |

`reconciling.py` and `services/assigning.py` compute a group's next state. The
other side of the wire, as pure, is `holder.py` for leases and `member.py` for groups and roles.

Overdue leases and members end by an update of the document that names the term
(`machines/updates.py`).

The rules that comments cite (S3, H1, G2 ...), and why the whole is safe: `docs/rules.md`.
"""
