"""Open files: each connection is one, and so are a node's tables, its journal and its links.

Where there are no more, the system closes whoever connects without a word, clients and peers
alike, and a node cannot open what is its own. So clients are refused while there are still some.
"""

import contextlib
import resource
from dataclasses import replace

import structlog

from docstore.model.limits import Limits

OWN = 256
"""Kept from clients: some 40 for the disk and the event loop, two for each peer, a few for each
scan and for each part of a job that arrives. Half of them, where the system allows no more."""

log = structlog.get_logger("docstore.node")


def fitting(limits: Limits) -> Limits:
    """Return limits whose connections leave this process files of its own; log if they are fewer.

    The soft limit (`ulimit -n`) is raised as far as is needed, and as the hard one allows.
    """
    allowed = _allowed(limits.connections_max + OWN)
    room = allowed - min(OWN, allowed // 2)
    if room >= limits.connections_max:
        return limits
    log.warning(
        "fewer connections than connections_max: too few open files are allowed (ulimit -n)",
        connections_max=limits.connections_max,
        connections=room,
        files=allowed,
        files_needed=limits.connections_max + OWN,
    )
    return replace(limits, connections_max=room)


def _allowed(wanted: int) -> int:
    """Return how many files may be open, raised to `wanted` if possible; that many if no bound."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    more = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    with contextlib.suppress(OSError, ValueError):  # macOS has a bound that it does not tell.
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        return more
    return soft
