"""Findings on single nodes: not ready, short of something, in plain text, with alarms."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding, Grade
from docstore.cli.diagnosis.seen import NodeReport, Seen
from docstore.model.words import count

WATCH = "operations.md#what-to-watch"
SETTINGS = "operations.md#running-nodes"
DAY_S = 86_400.0
SOON_S = 14 * DAY_S
CLOCKS_S, TOKENS_S = 0.5, 30.0
"""Clocks that differ by more make times in documents wrong, and tokens fail."""
ROOM_BYTES, ROOM_SHARE = 256 << 20, 0.1
FILES_FEW, FILES_SHARE = 4_096, 0.8
BEHIND_BYTES = 32 << 20
LAG_MS = 250.0


def findings(seen: Seen) -> Iterator[Finding]:
    """Yield what there is to say."""
    for name, node in seen.answering():
        if not node.page.get("ready", True):
            yield Finding(
                WRONG, name, f"it is not ready: {node.page['reason']}",
                "wait a moment; if it stays, do what is said of the others first", WATCH,
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
    todo = "make room on it, or give the node a larger one"
    see = "operations.md#changing-the-group"
    if node.metric("docstore_journal_full"):
        what = "its disk is full: it takes no updates, and its slots are with others if they can be"
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
            f"put a new one in its place (`docstore certs make-node {name}`); it need not start "
            "anew", "operations.md#tls",
        )  # fmt: skip


def _of_secrecy(name: str, node: NodeReport) -> Iterator[Finding]:
    if secrets := node.page.get("openSecrets"):
        yield Finding(
            RISK, name, f"others on its machine may read the file of {' and '.join(secrets)}",
            "`chmod 600`; if somebody may have read it, change what is in it",
            "operations.md#access",
        )  # fmt: skip
    if plain := node.page.get("plainText"):
        yield Finding(
            RISK, name, f"it speaks plain text beyond its machine ({', '.join(plain)})",
            "give it certificates and a key of gossip, unless the network is private",
            "operations.md#tls",
        )  # fmt: skip


def _of_files(name: str, node: NodeReport) -> Iterator[Finding]:
    most, now = node.metric("process_max_fds"), node.metric("process_open_fds")
    if most and now > FILES_SHARE * most:
        yield Finding(
            WRONG, name, f"it has {int(now):,} of {int(most):,} files open, connections among them",
            "raise the limit of open files (`ulimit -n`), or look who connects so often", SETTINGS,
        )  # fmt: skip
    elif 0 < most < FILES_FEW:
        clients = node.page.get("limits", {}).get("connections_max", 0)
        yield Finding(
            RISK, name, f"it may open {int(most):,} files, and so takes "
            f"{count(int(clients), 'connection')} of clients",
            "raise the hard limit of open files (`ulimit -Hn`)", SETTINGS,
        )  # fmt: skip


def _of_pace(name: str, node: NodeReport) -> Iterator[Finding]:
    behind = int(node.metric("docstore_journal_behind_bytes"))
    if behind > BEHIND_BYTES:
        yield Finding(
            RISK, name, f"its tables are {behind >> 20:,} MiB behind its journal",
            "look what else uses its disk; commits will wait when the journal is full",
            "metrics.md#the-journal",
        )  # fmt: skip
    lag_ms = float(node.page.get("eventLoopLagMs", 0))
    if lag_ms > LAG_MS:
        yield Finding(
            RISK, name, f"its event loop is {lag_ms:,.0f} ms late: every request waits so long",
            "look what else uses the processor; one node uses one core", WATCH,
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
        lambda n: f"{count(n, 'request')} met an error of ours since its start",
        "report what its log says of them",
    ),
    AlarmCounter(
        "docstore_streams_alarms_total", WRONG,
        lambda n: f"{count(n, 'time')} something happened to its streams that never must",
        "report what its log says of it", "operations.md#what-did-this-node-do",
    ),
    AlarmCounter(
        "docstore_repair_corrupt_total", WRONG,
        lambda n: f"{count(n, 'slot')} had a row on its disk that is not what was written",
        "they were copied anew; have the disk and the memory of its machine tested",
    ),
    AlarmCounter(
        "docstore_http_connections_refused_total", RISK,
        lambda n: f"{count(n, 'connection')} were refused since there were too many",
        "look who connects so often, or raise connections_max", SETTINGS,
    ),
    AlarmCounter(
        "docstore_peer_certificates_refused_total", RISK,
        lambda n: f"{count(n, 'time')} a peer had no certificate of a node of this group",
        "its log says who; give that one a certificate that the others believe",
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
            "let UDP through to the gossip ports", "gossip.md",
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
            "bring all to the later one, one after the other; that is fine for a while, and needed "
            "before anything new is stored", "operations.md#upgrading",
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
            f"its clock is {apart_s:,.1f} s before that of {late[2]}",
            "have all clocks set over the network (NTP): times in documents, expiry and tokens go "
            "by them; who owns what does not", "guarantees.md",
        )  # fmt: skip
