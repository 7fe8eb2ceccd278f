"""Findings on single nodes: not ready, short of something, in plain text, with alarms."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding, Grade
from docstore.cli.diagnosis.seen import NodeReport, Seen
from docstore.model.words import count

WATCH = "operations.md#watch-a-group"
SETTINGS = "operations.md#running-nodes"
DAY_S = 86_400.0
SOON_S = 14 * DAY_S
CLOCKS_S, TOKENS_S = 0.5, 30.0
"""Clock differences in seconds from which times in documents are wrong, and from which tokens fail.
"""
ROOM_BYTES, ROOM_SHARE = 256 << 20, 0.1
FILES_FEW, FILES_SHARE = 4_096, 0.8
BEHIND_BYTES = 32 << 20
LAG_MS = 250.0


def findings(seen: Seen) -> Iterator[Finding]:
    for name, node in seen.answering():
        if not node.page.get("ready", True):
            yield Finding(
                WRONG, name, f"it is not ready: {node.page['reason']}",
                "wait a moment; if it stays so, resolve the other findings first", WATCH,
            )  # fmt: skip
        yield from _of_disk(name, node)
        yield from _of_certificate(name, node, seen.now_s)
        yield from _of_secrecy(name, node)
        yield from _of_files(name, node)
        yield from _of_pace(name, node)
        yield from _of_counters(name, node)
    yield from _of_versions(seen)
    yield from _of_clocks(seen)


def _of_disk(name: str, node: NodeReport) -> Iterator[Finding]:
    disk = node.page.get("disk", {})
    free, total = disk.get("freeBytes"), disk.get("totalBytes", 0)
    todo = "free space on it, or move the node to a larger disk"
    see = "operations.md#changing-the-group"
    if node.metric("docstore_journal_full"):
        what = (
            "its disk is full: it rejects updates, and gives up its slots if others can take them"
        )
        yield Finding(WRONG, name, what, todo, see)
    elif free is not None and free < ROOM_BYTES:
        yield Finding(WRONG, name, f"its disk has {free >> 20:,} MiB left", todo, see)
    elif free is not None and free < ROOM_SHARE * total:
        what = f"its disk has {free >> 20:,} MiB left, {free / total:.0%} of it"
        yield Finding(RISK, name, what, todo, see)


def _of_certificate(name: str, node: NodeReport, now_s: float) -> Iterator[Finding]:
    expires_s = node.metric("docstore_tls_expires_seconds")
    if expires_s and expires_s - now_s < SOON_S:
        days = (expires_s - now_s) / DAY_S
        ends = "has expired" if days < 0 else f"expires in {count(int(days), 'day')}"
        yield Finding(
            WRONG if days < 0 else RISK, name, f"its certificate {ends}",
            f"replace it (`docstore certs make-node {name}`); the node need not be restarted",
            "operations.md#tls",
        )  # fmt: skip


def _of_secrecy(name: str, node: NodeReport) -> Iterator[Finding]:
    if secrets := node.page.get("openSecrets"):
        yield Finding(
            RISK, name, f"other users of its machine may read the file of {' and '.join(secrets)}",
            "`chmod 600` the file; if another user may have read it, replace its secret",
            "operations.md#access",
        )  # fmt: skip
    if plain := node.page.get("plainText"):
        yield Finding(
            RISK, name, f"it sends plain text over the network ({', '.join(plain)})",
            "give it certificates and a gossip key, unless the network is private",
            "operations.md#tls",
        )  # fmt: skip


def _of_files(name: str, node: NodeReport) -> Iterator[Finding]:
    most, now = node.metric("process_max_fds"), node.metric("process_open_fds")
    if most and now > FILES_SHARE * most:
        yield Finding(
            WRONG, name, f"it has {int(now):,} of {int(most):,} files open, connections among them",
            "raise the limit of open files (`ulimit -n`), or find clients with many connections",
            SETTINGS,
        )  # fmt: skip
    elif 0 < most < FILES_FEW:
        clients = node.page.get("limits", {}).get("connections_max", 0)
        yield Finding(
            RISK, name, f"it may open {int(most):,} files, so it accepts only "
            f"{count(int(clients), 'client connection')}",
            "raise the hard limit of open files (`ulimit -Hn`)", SETTINGS,
        )  # fmt: skip


def _of_pace(name: str, node: NodeReport) -> Iterator[Finding]:
    behind = int(node.metric("docstore_journal_behind_bytes"))
    if behind > BEHIND_BYTES:
        yield Finding(
            RISK, name, f"its tables are {behind >> 20:,} MiB behind its journal",
            "find out what else uses its disk; commits will wait once the journal is full",
            "metrics.md#the-journal",
        )  # fmt: skip
    lag_ms = float(node.page.get("eventLoopLagMs", 0))
    if lag_ms > LAG_MS:
        yield Finding(
            RISK, name, f"its event loop is {lag_ms:,.0f} ms late, which delays every request",
            "find out what else uses the processor; a node uses one core", WATCH,
        )  # fmt: skip


class AlarmCounter(NamedTuple):
    """A counter that should be 0."""

    metric: str
    grade: Grade
    what: Callable[[int], str]
    todo: str
    see: str = WATCH


ALARMS = (
    AlarmCounter(
        "docstore_http_internal_errors_total", WRONG,
        lambda n: f"{count(n, 'request')} met an internal error since its start",
        "report the tracebacks in its log",
    ),
    AlarmCounter(
        "docstore_streams_alarms_total", WRONG,
        lambda n: f"{count(n, 'time')} a stream broke one of its invariants",
        "report the alarms in its log", "operations.md#see-what-a-node-did",
    ),
    AlarmCounter(
        "docstore_repair_corrupt_total", WRONG,
        lambda n: f"{count(n, 'slot')} had a corrupt row on its disk",
        "they were copied again; test the disk and the memory of its machine",
    ),
    AlarmCounter(
        "docstore_http_connections_refused_total", RISK,
        lambda n: f"{count(n, 'connection')} were refused because there were too many",
        "find the clients with many connections, or raise connections_max", SETTINGS,
    ),
    AlarmCounter(
        "docstore_peer_certificates_refused_total", RISK,
        lambda n: f"{count(n, 'time')} a peer had no certificate of a node of this group",
        "find the peer in its log, and give it a certificate that the other nodes accept",
        "operations.md#tls",
    ),
)  # fmt: skip


def _of_counters(name: str, node: NodeReport) -> Iterator[Finding]:
    for alarm in ALARMS:
        if number := int(node.metric(alarm.metric)):
            yield Finding(alarm.grade, name, alarm.what(number), alarm.todo, alarm.see)
    probes = node.metric("docstore_gossip_probes_total")
    lost = node.metric("docstore_gossip_probes_answered_by_stream_only_total")
    if lost > max(10.0, probes / 10):
        yield Finding(
            RISK, name, f"{lost / probes:.0%} of its probes were answered over TCP only",
            "allow UDP to the gossip ports", "gossip.md",
        )  # fmt: skip


def _of_versions(seen: Seen) -> Iterator[Finding]:
    versions: dict[str, list[str]] = {}
    for name, node in seen.answering():
        spoken = f"{node.page.get('version')} (protocol {node.page.get('protocol')})"
        versions.setdefault(spoken, []).append(name)
    if len(versions) > 1:
        told = "; ".join(f"{', '.join(names)}: {each}" for each, names in sorted(versions.items()))
        yield Finding(
            RISK, "", f"its nodes run different versions: {told}",
            "upgrade all nodes to the later one, one after the other; until then the group stores "
            "nothing that the earlier one cannot read", "operations.md#upgrading",
        )  # fmt: skip


def _of_clocks(seen: Seen) -> Iterator[Finding]:
    clocks = [(node.ahead_s, node.unsure_s, name) for name, node in seen.answering()]
    if len(clocks) < 2:
        return
    late, early = min(clocks), max(clocks)
    apart_s = early[0] - late[0] - early[1] - late[1]
    if apart_s > CLOCKS_S:
        yield Finding(
            WRONG if apart_s > TOKENS_S else RISK, early[2],
            f"its clock is {apart_s:,.1f} s ahead of that of {late[2]}",
            "synchronise all clocks (NTP): times in documents, expiry and tokens depend on them; "
            "ownership does not", "guarantees.md",
        )  # fmt: skip
