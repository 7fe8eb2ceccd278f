"""The next configuration that the register's leader offers by itself.

A change advances from learning to joint when the newcomers hold the decided rows, and from joint to
stable when every slot is open under majorities of both sets. In a stable group the leader removes a
member that is silent for too long, spreads votes over zones, and raises the stored protocol.
"""

from docstore.documents.core import Core
from docstore.documents.membership import stored_protocol
from docstore.documents.membership.change import Change, ChangeRefused, Kind, advanced, begin
from docstore.documents.membership.readiness import Readiness
from docstore.ownership.configuration import Configuration, Stage, with_votes


def next_configuration(core: Core, readiness: Readiness) -> Configuration | None:
    """Return the next configuration, None if the present one may stay."""
    configuration = core.configuration
    if configuration.stage is Stage.STABLE:
        following = _without_a_silent_member(core) or _with_votes_spread(core)
        return following or stored_protocol.raised(core)
    if not readiness.is_complete():
        return None
    core.counters["steps_of_change"] += 1
    return advanced(configuration)


def _without_a_silent_member(core: Core) -> Configuration | None:
    """Return a configuration without a member that was silent for too long; None if none was."""
    patience_s = core.config.remove_after_s
    if patience_s <= 0 or core.now - core.started_at < patience_s:
        return None
    for member, peer in core.peers.items():
        if core.now - peer.last_word_at < patience_s:
            continue
        try:
            following = begin(core.configuration, Change(Kind.REMOVE, member))
        except ChangeRefused:
            continue  # Too few members would remain.
        core.counters["removals_proposed"] += 1
        return following
    return None


def _with_votes_spread(core: Core) -> Configuration | None:
    """Return a configuration whose votes are spread over zones; None if there is nothing to change.

    The founding does not spread votes, and they move only while all members are alive.
    """
    configuration = core.configuration
    if with_votes(configuration.members) == configuration.members:
        return None
    if not all(map(core.is_alive, core.peers)):
        return None
    core.counters["votes_spread"] += 1
    return begin(configuration, Change(Kind.SPREAD))
