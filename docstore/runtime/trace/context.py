"""The trace context (W3C) of the request that is being served.

The HTTP server sets it, and drivers copy it into the operation, which carries it to other nodes.
Work that combines many requests (the end of a turn, a commit) runs outside of every context.
"""

from contextvars import ContextVar

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""The request's `traceparent`, "" for none."""

LENGTH = 55
"""Characters of a `traceparent` of version 00. Characters that later versions add are returned to
the client, but not carried."""


def trace_id(traceparent: str) -> str:
    """Return the id of the trace, which all of its spans share."""
    return traceparent[3:35]
