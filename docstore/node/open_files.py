"""The limit of open files: connections, tables, journal and links need one each.

At the limit the system closes new connections of clients and peers without an answer, and a node
cannot open its own files. So the node rejects clients before that.
"""

import contextlib
import resource
from dataclasses import replace

import structlog

from docstore.model.limits import Limits

OWN = 256
"""Files kept from clients: about 40 for the disk and the event loop, two for each peer, a few for
each scan and each part of a job. If the system's limit is low, half of it."""

log = structlog.get_logger("docstore.node")


def fitting(limits: Limits) -> Limits:
    """Return limits whose connections leave this process `OWN` files; log if they are fewer.

    The soft limit (`ulimit -n`) is raised as far as needed and as the hard limit allows.
    """
    allowed = _allowed(limits.connections_max + OWN)
    room = allowed - min(OWN, allowed // 2)
    if room >= limits.connections_max:
        return limits
    log.warning(
        "fewer connections than connections_max: raise the limit of open files (ulimit -n)",
        connections_max=limits.connections_max,
        connections=room,
        files=allowed,
        files_needed=limits.connections_max + OWN,
    )
    return replace(limits, connections_max=room)


def _allowed(wanted: int) -> int:
    """Return the number of files that may be open, after raising the limit towards `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    more = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    with contextlib.suppress(
        OSError, ValueError
    ):  # macOS does not report its real limit, which is lower.
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        return more
    return soft
