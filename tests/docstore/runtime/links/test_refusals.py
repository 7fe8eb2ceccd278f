"""Refused peers are logged once, however often they dial."""

from structlog.testing import capture_logs

from docstore.runtime.links.connections import PEERS_MAX, Refusals


def test_a_refused_peer_is_logged_once_per_reason() -> None:
    refusals = Refusals()
    with capture_logs() as lines:
        for _ in range(3):
            refusals.tell("n4", "another cluster")
        refusals.tell("n4", "it proposes protocol 1")
        refusals.admitted("n4")
        refusals.tell("n4", "it proposes protocol 1")
    reasons = [line["why"] for line in lines]
    assert reasons == ["another cluster", "it proposes protocol 1", "it proposes protocol 1"]


def test_names_of_refused_peers_take_bounded_memory() -> None:
    refusals = Refusals()
    for number in range(3 * PEERS_MAX):
        refusals.tell(f"n{number}", "another cluster")
    assert len(refusals._told) <= PEERS_MAX
