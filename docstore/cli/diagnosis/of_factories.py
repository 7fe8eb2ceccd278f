"""Findings on declarations of factories: what they say in vain."""

from collections.abc import Iterator

from docstore.cli.diagnosis.finding import RISK, Finding
from docstore.cli.diagnosis.seen import Seen


def findings(seen: Seen) -> Iterator[Finding]:
    """Yield what there is to say."""
    for declaration in seen.factories:
        for warning in declaration.get("warnings", ()):
            yield Finding(
                RISK, str(declaration["path"]),
                f"`{warning['member']}` of its declaration changes nothing: {warning['detail']}",
                "take it out, or do not rely on it", "http.md#said-in-vain",
            )  # fmt: skip
