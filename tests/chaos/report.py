"""Report of a run of torture: faults, problems, and a plot of availability."""

import json
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.gossip import plots
from bench.gossip.figure import Plot, Series
from docstore.client.local import LocalNode
from tests.docstore.watching import page_of

if TYPE_CHECKING:
    from tests.chaos.mix import Op
    from tests.chaos.torture import Account, Strike

AFTER_S = 3.0
"""How long after its end a fault counts as the cause of failed requests."""


ABOUT = (
    "Five real processes serve clients while faults strike them, one or several at a time. Each row"
    " has all faults of one kind. *Answered* is the share of requests that succeeded from the fault"
    " to shortly after its end; then comes the longest time in which no request of any client"
    " succeeded. After each chapter a checker compares the answers that clients got with the stored"
    " history: a contradiction is a problem."
)
HEAD = (
    "| fault | times | answered | longest without any answer, median | greatest |",
    "|---|---|---|---|---|",
)


def text_of(account: "Account") -> str:
    """Return the report as Markdown."""
    by_kind: dict[str, list[Strike]] = defaultdict(list)
    for strike in account.strikes:
        by_kind[strike.kind].append(strike)
    minutes = (time.monotonic() - account.began) / 60
    summary = (
        f"Seed {account.seed}: {minutes:.1f} minutes, {account.operations} operations in"
        f" {account.chapters} chapters, {account.batches} atomic batches among them and"
        f" {account.moments} looks at all of a key, {len(account.strikes)} faults of"
        f" {len(by_kind)} kinds, {len(account.problems)} problems."
    )
    lines = ["# Torture", "", ABOUT, "", summary, "", *HEAD]
    for kind, strikes in sorted(by_kind.items()):
        gaps = sorted(_gap_s(account, strike) for strike in strikes)
        share = _success(account, strikes)
        lines.append(
            f"| {kind} | {len(strikes)} | {share:.1%} | {gaps[len(gaps) // 2]:.1f} s"
            f" | {gaps[-1]:.1f} s |"
        )
    if account.problems:
        lines += ["", "Problems:", "", *(f"* {problem}" for problem in account.problems[:40])]
    return "\n".join([*lines, ""])


def _gap_s(account: "Account", strike: "Strike") -> float:
    """Return the longest time without a single success from the fault on, in seconds."""
    longest = run = 0
    for tenth in range(int(strike.begun_s * 10), int((strike.ended_s + AFTER_S) * 10)):
        run = 0 if account.story.succeeded[tenth] else run + 1
        longest = max(longest, run)
    return longest / 10


def _success(account: "Account", strikes: "list[Strike]") -> float:
    good = bad = 0
    for strike in strikes:
        for tenth in range(int(strike.begun_s * 10), int((strike.ended_s + AFTER_S) * 10)):
            good += account.story.succeeded[tenth]
            bad += account.story.failed[tenth]
    return good / max(1, good + bad)


def write(path: Path, account: "Account", text: str) -> None:
    """Write the report, and a plot of what succeeded and failed in each second beside it."""
    series = [Series("answered"), Series("refused or unknown")]
    end = int(max((*account.story.succeeded, *account.story.failed), default=0) / 10)
    for each, counts in zip(series, (account.story.succeeded, account.story.failed), strict=True):
        for second in range(end):
            total = sum(counts[second * 10 + tenth] for tenth in range(10))
            each.points.append((float(second), float(total)))
    plot = Plot(path.stem, "Operations a second under torture", "seconds", "operations", series)
    picture = plots.write(plot, path.parent)
    path.write_text(f"{text}\n![operations a second]({picture.name})\n")


def keep_evidence(
    account: "Account", link: str, ops: "list[Op]", stored: dict[int, dict[str, Any]]
) -> None:
    """Keep the answers about a document, and its stored versions, in the order of time."""
    kept = Path(tempfile.gettempdir()) / f"docstore-torture-{account.seed}"
    kept.mkdir(exist_ok=True)
    began = account.began
    lines = [
        f"{op.start - began:9.3f} {op.end - began:9.3f} {op.kind:6} {op.uid:10} {op.node}"
        f" {op.status} v{op.version}"
        for op in sorted(ops, key=lambda op: op.start)
    ]
    lines += [
        f"v{version}: {document.get('uid')} {document['documentUpdateAction']}"
        f" epoch {document['documentEpoch']} {document['documentOwner']}"
        f" {document['documentUpdateTimeMicros']}"
        for version, document in sorted(stored.items())
    ]
    lines += [f"{strike}" for strike in account.strikes]
    (kept / f"{link.rpartition('/')[2]}.txt").write_text("\n".join(lines) + "\n")


PAGES = {
    "group": "/core/node-groups/default",
    "node": "/core/management",
    "digests": "/core/management/digests",
    "selector": "/core/node-selectors/default",
}
"""Pages of each node that are kept when a problem was found."""


def keep_logs(directory: Path, seed: int, nodes: Sequence[LocalNode]) -> None:
    """Keep the nodes' logs and pages for an investigation."""
    kept = Path(tempfile.gettempdir()) / f"docstore-torture-{seed}"
    kept.mkdir(exist_ok=True)
    for log in directory.glob("*/log.txt"):
        shutil.copy(log, kept / f"{log.parent.name}.txt")
    for node in nodes:
        for name, path in PAGES.items():
            page = page_of(node.url + path)
            (kept / f"{node.name}-{name}.json").write_text(json.dumps(page, indent=1))
    print(f"the nodes' logs are in {kept}")
