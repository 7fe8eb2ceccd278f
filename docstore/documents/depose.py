"""A term ends: somebody promised a higher ballot, or the owner yields.

What is in the log stays there; the next owner will decide it, or cut it. Operations that were
proposed are handed back as undecided (rule O5): their entry nodes ask the next owner under the
same identity, and it finds them in the log, or does not. Operations that were not proposed are
simply returned.
"""

from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import Term


def depose(core: Core, log: SlotLog) -> None:  # Seam.
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
    """Take rows out of the log that this turn put there: nobody has heard of them."""
    if not term.fresh:
        return
    core.logs.dirty.discard(log.slot)
    first = term.fresh[0].n
    for inflight in term.clients.taken_back(first):
        core.reply(inflight, None)
    log.retract(first - 1)
