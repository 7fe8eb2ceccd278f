"""A request's trace context: in its operations and log lines, and not in later requests."""

import json
import subprocess
import sys
from typing import Any

from aiohttp import ClientSession

from docstore.runtime.trace.context import TRACEPARENT
from tests.docstore.http.single import SingleNode

LINK = "/core/examples/a"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_operations_of_a_request_have_its_trace(
    client: ClientSession, node: SingleNode
) -> None:
    """The requests follow each other on the same connection."""
    seen, submit = [], node.submit

    def submitted(*arguments: Any) -> Any:
        seen.append(TRACEPARENT.get())
        return submit(*arguments)

    node.submit = submitted  # type: ignore[method-assign]
    later = "cc" + TRACE[2:] + "-what-a-later-version-adds"
    for trace in (TRACE, None, later, "nonsense"):
        async with client.get(LINK, headers={"traceparent": trace} if trace else {}) as response:
            assert response.status == 404
            assert response.headers.get("traceparent") == (trace if trace != "nonsense" else None)
    assert seen == [TRACE, "", "cc" + TRACE[2:], ""]


def test_a_log_line_names_its_trace() -> None:
    says = (
        "import structlog; from docstore.runtime import logs; logs.set_up('json', 'warning');"
        "from docstore.runtime.trace.context import TRACEPARENT; log = structlog.get_logger();"
        f"log.warning('one'); TRACEPARENT.set('{TRACE}'); log.info('two'); log.warning('three');"
        "logs.set_level('info'); log.info('four'); log.debug('five')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", says], capture_output=True, text=True, check=True, timeout=20
    )
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    said = [(line["event"], line.get("traceparent")) for line in lines]
    assert said == [("one", None), ("three", TRACE), ("four", TRACE)]
