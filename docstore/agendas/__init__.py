"""Agendas: timers that fire, and effects that are delivered, by the owner of each document.

The machine is a client of documents, as streams and sessions are. Only the agenda is durable, in
the newest row of each document (`model/agenda.py`). The owner of a slot finds the agendas of its
documents when its term begins, and learns new ones when their rows are decided.

| step | file |
|---|---|
| which documents have an agenda, under which term? | `known.py` |
| which timer is due? one update for each due time | `firing.py` |
| the next effect of each document, again until it is delivered | `delivering.py` |
| delivered effects leave the agenda | `delivering.py` |

The rules that comments cite (TI1, EF1 ...): `docs/rules.md`.
"""
