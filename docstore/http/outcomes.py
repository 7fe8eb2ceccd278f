"""Outcomes of requests to partitions as HTTP shows them."""

from docstore.http.headers import RequestHead
from docstore.http.problems import problem
from docstore.http.reply import Reply
from docstore.streams.effects import HIGH_NOT_KNOWN, Problem


def problem_of(outcome: Problem, request: RequestHead) -> Reply:
    return problem(
        outcome.status, outcome.code, outcome.detail, unknown=outcome.unknown,
        instance=request.raw_path, more=outcome.more,
    )  # fmt: skip


def shown_high(high: int) -> int | None:
    """Return a high watermark as JSON shows it: null if the leader does not know it."""
    return None if high == HIGH_NOT_KNOWN else high
