"""Whose request this is: the trace context (W3C) of the request that is being served.

The HTTP face sets it, drivers write it into what they are asked for, and it travels on with that.
What gathers from many requests (the end of a turn, a commit) runs outside of all of them.
"""

from contextvars import ContextVar

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""The request's `traceparent`, "" for none."""

LENGTH = 55
"""Of version 00: what a later version has more is given back to the client, and not carried."""


def trace_id(traceparent: str) -> str:
    """Return the id of the trace, the part that all spans of one share."""
    return traceparent[3:35]
