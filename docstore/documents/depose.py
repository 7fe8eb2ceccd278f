"""The end of a term: a replica has promised a higher ballot, or the owner yields.

Rows in the log stay there: the next owner decides or truncates them. Operations that were proposed
return to their entry nodes as undecided (rule O5). An entry node asks the next owner under the same
identity, and that owner looks for the row in its log. Operations that were not proposed simply
return.
"""

from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import Term


def depose(core: Core, log: SlotLog) -> None:  # Tests replace this.
    """End this node's term over the slot, if it has one."""
    term = log.term
    if term is None:
        return
    core.logs.set_term(log, None)
    core.counters["reigns_ended"] += 1
    core.claims_changed = core.routes_changed = True
    core.logs.newly_decided.discard(log.slot)
    _take_back_fresh(core, log, term)
    for inflight in term.clients.in_the_log():
        core.reply(inflight, None, proposed=True)
    for inflight in term.clients.not_in_the_log():
        core.reply(inflight, None)


def _take_back_fresh(core: Core, log: SlotLog, term: Term) -> None:
    """Retract the rows of this turn: no other node has seen them."""
    if not term.fresh:
        return
    core.logs.dirty.discard(log.slot)
    first = term.fresh[0].n
    for inflight in term.clients.taken_back(first):
        core.reply(inflight, None)
    log.retract(first - 1)
