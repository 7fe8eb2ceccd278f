"""Pages about a member, made by that member and read by other nodes, by path.

A client may also choose a member to ask (`http/selectors.py`). That member asks no other node, so a
request cannot circulate.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from docstore.errors import Unavailable
from docstore.reads.refusals import NotAMember
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import Page, ReadPage

ANSWER_S = 2.0
"""Seconds to wait for a page, which a member makes from memory."""


class MemberPages(NamedTuple):
    """Pages of the members of a group. failures: member -> reason why its page is missing."""

    pages: Mapping[str, Any]
    failures: Mapping[str, str]


class NodePages:
    """Requests pages from members, and answers such requests about this node."""

    def __init__(
        self, rpc: Rpc, members: Callable[[], Sequence[str]], own: Callable[[str], Page | None]
    ) -> None:
        self._rpc = rpc
        self._members = members
        self._own = own
        rpc.serve(ReadPage, self._page_here)

    async def at(self, member: str, path: str, timeout_s: float) -> Any:
        """Return the page of one member. Raises NotAMember, Unavailable."""
        if member not in self._members():
            raise NotAMember(f"the group has no member {member[:60]}")
        return await self._rpc.call(member, ReadPage(path), min(timeout_s, ANSWER_S))

    async def of_all(self, path: str, timeout_s: float) -> MemberPages:
        failures: dict[str, str] = {}

        async def ask(member: str) -> Any:
            try:
                return await self.at(member, path, timeout_s)
            except Unavailable as error:
                failures[member] = str(error)

        members = self._members()
        found = zip(members, await asyncio.gather(*map(ask, members)), strict=True)
        return MemberPages({name: page for name, page in found if name not in failures}, failures)

    async def _page_here(self, asked: ReadPage) -> Page | None:
        return self._own(asked.path)
