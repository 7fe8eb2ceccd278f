"""Findings on the slots of documents: without an owner, with too few copies, behind, faulty."""

from collections import Counter
from collections.abc import Iterator

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding
from docstore.cli.diagnosis.seen import Seen
from docstore.model.words import count

WATCH = "operations.md#what-to-watch"
LAG_ROWS = 1_000
"""So many rows behind are more than what is under way."""


def findings(seen: Seen) -> Iterator[Finding]:
    """Yield what there is to say."""
    yield from _of_owners(seen)
    yield from _of_copies(seen)
    yield from _of_lag(seen)
    for name, node in seen.answering():
        if faulty := node.page.get("slots", {}).get("faulty", 0):
            yield Finding(
                WRONG, name, f"{count(faulty, 'slot')} abstain here: they failed a checksum, or "
                "are not copied yet", "wait until they are copied anew; if they stay, look at its "
                "log and its disk", WATCH,
            )  # fmt: skip
        if lost := int(node.metric("docstore_documents_in_conflict")):
            yield Finding(
                RISK, name, f"{count(lost, 'document')} of levels 1 and 2 have branches that lost",
                "look at `/conflicts` of them, and DELETE it once they are settled",
                "guarantees.md",
            )  # fmt: skip


def _of_owners(seen: Seen) -> Iterator[Finding]:
    table = seen.selector["table"]
    if vacant := sum(not slot["owner"] for slot in table):
        yield Finding(
            WRONG, "", f"{vacant:,} of {count(len(table), 'slot')} have no owner: their documents "
            "are neither read nor written",
            "a take-over takes a second or two; if it stays so, a majority of their copies is not "
            "there", "replication.md",
        )  # fmt: skip
    owned = Counter(slot["owner"] for slot in table)
    for each in seen.members:
        name = str(each["id"])
        if each["role"] in ("voter", "member") and seen.is_there(name) and not owned[name]:
            yield Finding(
                RISK, name, "it owns no slot, though it is a member",
                "a node that returns has its slots back in seconds; one whose disk is full has "
                f"none. `docstore trace {name}` shows what it does", WATCH,
            )  # fmt: skip


def _of_copies(seen: Seen) -> Iterator[Finding]:
    wanted = seen.configuration["replicationFactor"]
    if wanted is not None and wanted > seen.selector["replicationFactor"]:
        yield Finding(
            RISK, "", f"{wanted} copies of each document are wanted, and there are "
            f"{count(len(seen.members), 'member')}",
            "let more members in", "operations.md#changing-the-group",
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
            WRONG, "", f"of {count(lost, 'slot')} no majority of the copies is there: their "
            "documents are not written", "bring the nodes back that have them", "replication.md",
        )  # fmt: skip
    if short:
        yield Finding(
            RISK, "", f"{count(short, 'slot')} have fewer copies than they should",
            "bring the nodes back that have the others, or replace them",
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
                "look whether its disk or its network is slower than that of the others", WATCH,
            )  # fmt: skip
