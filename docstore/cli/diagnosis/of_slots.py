"""Findings on the slots of documents: without an owner, with too few copies, behind, faulty."""

from collections import Counter
from collections.abc import Iterator

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding
from docstore.cli.diagnosis.seen import Seen
from docstore.model.words import count

WATCH = "operations.md#watch-a-group"
LAG_ROWS = 1_000
"""Rows by which a replica may lag because they are still in flight."""


def findings(seen: Seen) -> Iterator[Finding]:
    yield from _of_owners(seen)
    yield from _of_copies(seen)
    yield from _of_lag(seen)
    for name, node in seen.answering():
        if faulty := node.page.get("slots", {}).get("faulty", 0):
            yield Finding(
                WRONG, name, f"{count(faulty, 'slot')} abstain here: they failed a checksum, or "
                "are not copied yet", "wait until they are copied again; if they stay so, check "
                "its log and its disk", WATCH,
            )  # fmt: skip
        if lost := int(node.metric("docstore_documents_in_conflict")):
            yield Finding(
                RISK, name, f"{count(lost, 'document')} of levels 1 and 2 have branches that lost",
                "read `/conflicts` of each, resolve the conflict, then DELETE `/conflicts`",
                "guarantees.md",
            )  # fmt: skip


def _of_owners(seen: Seen) -> Iterator[Finding]:
    table = seen.selector["table"]
    if vacant := sum(not slot["owner"] for slot in table):
        yield Finding(
            WRONG, "", f"{vacant:,} of {count(len(table), 'slot')} have no owner: their documents "
            "can be neither read nor written",
            "wait two seconds for a take-over; if it stays so, a majority of their copies is "
            "unavailable: start those nodes", "replication.md",
        )  # fmt: skip
    owned = Counter(slot["owner"] for slot in table)
    for each in seen.members:
        name = str(each["id"])
        if each["role"] in ("voter", "member") and seen.is_there(name) and not owned[name]:
            yield Finding(
                RISK, name, "it is a member, but owns no slot",
                "a node that returns gets its slots back within seconds; a node with a full disk "
                f"gets none. `docstore trace {name}` shows its recent events", WATCH,
            )  # fmt: skip


def _of_copies(seen: Seen) -> Iterator[Finding]:
    wanted = seen.configuration["replicationFactor"]
    if wanted is not None and wanted > seen.selector["replicationFactor"]:
        yield Finding(
            RISK, "", f"{wanted} copies of each document are configured, but there are only "
            f"{count(len(seen.members), 'member')}",
            "add members", "operations.md#changing-the-group",
        )  # fmt: skip
    short = lost = 0
    there = {str(each["id"]): seen.is_there(str(each["id"])) for each in seen.members}
    for slot in seen.selector["table"]:
        copies = slot["replicas"]
        found = sum(there.get(each, False) for each in copies)
        lost += found * 2 <= len(copies)
        short += len(copies) // 2 < found < len(copies)
    if lost:
        yield Finding(
            WRONG, "", f"{count(lost, 'slot')} have no majority of their copies: their documents "
            "cannot be written", "start the nodes with the other copies", "replication.md",
        )  # fmt: skip
    if short:
        yield Finding(
            RISK, "", f"{count(short, 'slot')} have fewer copies than they should",
            "start the nodes with the other copies, or replace them",
            "operations.md#changing-the-group",
        )  # fmt: skip


def _of_lag(seen: Seen) -> Iterator[Finding]:
    behind: Counter[str] = Counter()
    for _, node in seen.answering():
        behind.update(node.page.get("replicationLag", {}))
    for name, rows in behind.items():
        if rows >= LAG_ROWS and seen.is_there(name):
            yield Finding(
                RISK, name, f"its copies are {count(rows, 'row')} behind",
                "check whether its disk or network is slower than that of the other nodes", WATCH,
            )  # fmt: skip
