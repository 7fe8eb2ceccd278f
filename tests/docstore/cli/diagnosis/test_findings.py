"""Each fault of a group is found and names its node or resource, with no other finding."""

from dataclasses import replace
from typing import Any

import pytest

from docstore.cli.diagnosis.finding import RISK, WRONG, Grade
from docstore.cli.diagnosis.seen import NodeReport, metrics_of
from docstore.cli.doctor import examine
from tests.docstore.cli.diagnosis.pages import NOW_S, Change, Pages
from tests.docstore.cli.diagnosis.places import is_a_place

DAY_S = 86_400


def setting(part: str, **members: Any) -> Change:
    """Return a change of the group's page, or of its configuration."""

    def change(pages: Pages) -> None:
        (pages.group if part == "group" else pages.group[part]).update(members)

    return change


def saying(name: str, **members: Any) -> Change:
    """Return a change of a node's page."""
    return lambda pages: pages.page(name).update(members)


def counting(metric: str, value: float) -> Change:
    """Return a change of a metric of n2."""
    return lambda pages: pages.set_metric("n2", metric, value)


def member(name: str, **members: Any) -> Change:
    return lambda pages: pages.member(name).update(members)


def slots(**members: Any) -> Change:
    """Return a change of the first two slots."""

    def change(pages: Pages) -> None:
        for slot in pages.selector["table"][:2]:
            slot.update(members)

    return change


def partition(**members: Any) -> Change:
    return lambda pages: pages.topics[0]["partitions"][1].update(members)


def not_made(pages: Pages) -> None:
    """Let the page show a topic that needs more replicas than there are members."""
    unmade = {"partition": 0, "leader": "", "resolution": None, "followers": [], "stale": True}
    pages.topics[0].update(resolution="insufficient-resources", partitions=[unmade])


def silent(pages: Pages) -> None:
    pages.nodes["n2"] = NodeReport(why_not="no answer in time")


def clocks(ahead_s: float, unsure_s: float = 0.01) -> Change:
    def change(pages: Pages) -> None:
        pages.nodes["n2"] = replace(pages.nodes["n2"], ahead_s=ahead_s, unsure_s=unsure_s)

    return change


def owning_nothing(pages: Pages) -> None:
    for slot in pages.selector["table"]:
        slot["owner"] = "n1" if slot["owner"] == "n2" else slot["owner"]


def alone(pages: Pages) -> None:
    for name in ("n2", "n3"):
        pages.group["configuration"]["members"].remove(pages.member(name))
        del pages.nodes[name]
    for slot in pages.selector["table"]:
        slot.update(owner="n1", replicas=["n1"])
    pages.group["configuration"].update(voters=["n1"], quorum=1)
    pages.topics.clear()


def two_copies_in_a_zone(pages: Pages) -> None:
    pages.member("n2")["zone"] = "z1"
    slots(replicas=["n1", "n2"])(pages)


FOUND = [
    (member("n2", role="learner"), RISK, "n2", "still copying data"),
    (alone, RISK, "n1", "it is the only member"),
    (setting("group", warnings=["zone a holds 2 of the 3 voters"]), RISK, "", "zone a holds 2"),
    (setting("group", convergence="CONVERGING"), RISK, "", "no link to each other"),
    (setting("configuration", stage="joint"), RISK, "", "being changed (joint)"),
    (setting("configuration", forced=1), RISK, "", "was forced 1 time:"),
    (setting("configuration", replicationFactor=5), RISK, "", "5 copies of each document"),
    (two_copies_in_a_zone, RISK, "", "zone z1 has most copies of 2 slots"),
    (member("n2", address="http://10.0.0.1:8004"), RISK, "", "n1 and n2 are on one machine"),
    (slots(owner=None), WRONG, "", "2 of 6 slots have no owner"),
    (owning_nothing, RISK, "n2", "owns no slot"),
    (saying("n2", slots={"faulty": 3}), WRONG, "n2", "3 slots abstain"),
    (saying("n2", replicationLag={"n3": 2_000}), RISK, "n3", "2,000 rows behind"),
    (counting("docstore_documents_in_conflict", 4), RISK, "n2", "4 documents of levels"),
    (saying("n2", ready=False, reason="it stops"), WRONG, "n2", "not ready: it stops"),
    (counting("docstore_journal_full", 1), WRONG, "n2", "its disk is full"),
    (saying("n2", disk={"totalBytes": 1 << 40, "freeBytes": 9 << 20}), WRONG, "n2", "has 9 MiB"),
    (saying("n2", disk={"totalBytes": 9 << 30, "freeBytes": 512 << 20}), RISK, "n2", "6% of it"),
    (counting("docstore_tls_expires_seconds", NOW_S - 1), WRONG, "n2", "certificate has expired"),
    (counting("docstore_tls_expires_seconds", NOW_S + 3.5 * DAY_S), RISK, "n2", "in 3 days"),
    (saying("n2", openSecrets=["token_file"]), RISK, "n2", "may read the file of token_file"),
    (saying("n2", plainText=["peer", "gossip"]), RISK, "n2", "(peer, gossip)"),
    (counting("process_open_fds", 9_000), WRONG, "n2", "9,000 of 10,256 files"),
    (counting("process_max_fds", 1_024), RISK, "n2", "may open 1,024 files"),
    (counting("docstore_journal_behind_bytes", 64 << 20), RISK, "n2", "64 MiB behind"),
    (saying("n2", eventLoopLagMs=900.0), RISK, "n2", "900 ms late"),
    (counting("docstore_http_internal_errors_total", 1), WRONG, "n2", "1 request met"),
    (counting("docstore_streams_alarms_total", 2), WRONG, "n2", "2 times"),
    (counting("docstore_repair_corrupt_total", 1), WRONG, "n2", "1 slot had a corrupt row"),
    (counting("docstore_http_connections_refused_total", 7), RISK, "n2", "7 connections"),
    (counting("docstore_peer_certificates_refused_total", 1), RISK, "n2", "1 time a peer"),
    (saying("n2", version="0.2.0", protocol=9), RISK, "", "n2: 0.2.0 (protocol 9)"),
    (clocks(2.0), RISK, "n2", "2.0 s ahead of that of n"),
    (clocks(45.0), WRONG, "n2", "45.0 s ahead of that of n"),
    (saying("n2", partitions={"faulty": 1}), WRONG, "n2", "1 replica of partitions"),
    (lambda pages: pages.topics[0].update(resolution="pending"), RISK, "orders", "is pending"),
    (partition(leader=""), WRONG, "orders", "no node leads partition 1"),
    (not_made, RISK, "orders", "is insufficient-resources"),
    (partition(replicas=["n1", "n2", "n4"], lrs=[["n1", "a"], ["n2", "b"]]), RISK, "n4",
     "1 replica of partitions"),
    (partition(replicas=["n1"], lrs=[["n1", "a"]]), WRONG, "orders", "partition 1 of it accept no"),
    (partition(followers=[{"id": "n3", "lag": 20_000}]), RISK, "n3", "follows 1 partition"),
    (lambda pages: pages.factories[0].update(warnings=[{"member": "indexes", "detail": "none"}]),
     RISK, "/notes", "`indexes` of its declaration changes nothing: none"),
]  # fmt: skip


def test_a_healthy_group_has_no_findings() -> None:
    assert examine(Pages().seen()) == []


@pytest.mark.parametrize(("change", "grade", "where", "words"), FOUND)
def test_each_fault_of_a_group_is_found(
    change: Change, grade: Grade, where: str, words: str
) -> None:
    pages = Pages()
    change(pages)
    [found] = examine(pages.seen())
    assert (found.grade, found.where) == (grade, where)
    assert words in found.what
    assert found.todo
    assert is_a_place(found.see), found.see


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (silent, "does not answer at http://10.0.0.2:8001: no answer in time"),
        (member("n2", status="SUSPECT"), "it has been suspect for 11 minutes"),
        (member("n2", status="UNKNOWN"), "it has been unknown to the others for 11 m"),
        (member("n2", status="LEFT"), "it has been stopped for 11 minutes"),
    ],
)
def test_an_unavailable_node_is_found(change: Change, words: str) -> None:
    pages = Pages()
    change(pages)
    found = examine(pages.seen())
    assert [each.where for each in found if each.grade is WRONG] == ["n2"]
    assert words in found[0].what


def test_a_dead_node_is_found_once_with_its_consequences() -> None:
    pages = Pages()
    pages.kill("n3")
    found = examine(pages.seen())
    assert [(each.grade, each.where) for each in found] == [(WRONG, "n3"), (RISK, ""), (RISK, "")]
    assert "docstore replace n3" in found[0].todo
    assert "2 of 3 voters are available" in found[1].what
    assert "6 slots have fewer copies" in found[2].what


def test_a_missing_majority_is_found() -> None:
    pages = Pages()
    pages.kill("n3")
    silent(pages)
    wrong = [each.what for each in examine(pages.seen()) if each.grade is WRONG]
    assert any("1 of 3 voters are available, and the quorum is 2" in each for each in wrong)
    assert any("6 slots have no majority of their copies" in each for each in wrong)


def test_pages_that_may_not_be_read_have_no_findings() -> None:
    pages = Pages()
    pages.nodes = {name: NodeReport() for name in pages.nodes}
    assert examine(pages.seen()) == []


def test_a_clock_of_unknown_error_has_no_finding() -> None:
    pages = Pages()
    clocks(1.0, unsure_s=0.8)(pages)
    assert examine(pages.seen()) == []


def test_faults_come_before_risks() -> None:
    pages = Pages()
    saying("n1", openSecrets=["token_file"])(pages)
    partition(leader="")(pages)
    assert [each.grade for each in examine(pages.seen())] == [WRONG, RISK]


def test_lost_datagrams_are_found() -> None:
    pages = Pages()
    pages.set_metric("n2", "docstore_gossip_probes_total", 200)
    assert examine(pages.seen()) == []
    pages.set_metric("n2", "docstore_gossip_probes_answered_by_stream_only_total", 100)
    [found] = examine(pages.seen())
    assert (found.grade, found.where) == (RISK, "n2")
    assert found.what == "50% of its probes were answered over TCP only"


def test_metrics_are_parsed() -> None:
    text = '# TYPE a counter\na 1\nb{peer="n 1"} 2.5\nnonsense\nc NaN x\n'
    assert metrics_of(text) == {"a": 1.0, 'b{peer="n 1"}': 2.5}
