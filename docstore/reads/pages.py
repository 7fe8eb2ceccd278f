"""The pages that nodes show each other: what a node says of itself, by path, and nothing else.

Who is asked about a group as a whole asks all of its members; a client may have one of them asked
(`http/selectors.py`). A node answers for itself and asks nobody, so no request goes on for ever.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from docstore.errors import Unavailable
from docstore.reads.refusals import NotAMember
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import Page, ReadPage

ANSWER_S = 2.0
"""A page is made at once, of what is in memory: who has not answered by then is not waited for."""


class MemberPages(NamedTuple):
    """What the members of a group say. failures: id -> why there is no page."""

    pages: Mapping[str, Any]
    failures: Mapping[str, str]


class NodePages:
    """Both sides: who asks a member, and the member."""

    def __init__(
        self, rpc: Rpc, members: Callable[[], Sequence[str]], own: Callable[[str], Page | None]
    ) -> None:
        """own: returns this node's page at a path."""
        self._rpc = rpc
        self._members = members
        self._own = own
        rpc.serve(ReadPage, self._page_here)

    async def at(self, member: str, path: str, timeout_s: float) -> Any:
        """Return the page of one member. Raises NotAMember, Unavailable; asks no other one."""
        if member not in self._members():
            raise NotAMember(f"the group has no member {member[:60]}")
        return await self._rpc.call(member, ReadPage(path), min(timeout_s, ANSWER_S))

    async def of_all(self, path: str, timeout_s: float) -> MemberPages:
        """Return the pages of all members, as far as they answer in time."""
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
