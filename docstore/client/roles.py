"""Roles: several processes divide them, and each knows without a request which roles it leads.

    async with client.role("pricing", roles=64, partitions=12, mode="exclusive") as role:
        if role.leads(7):
            await client.put("/prices/EURUSD", quote, fence=role.fence(7))

`leads` compares a vector with a clock; any thread may call it. That is enough for an action in this
process that happens at once. A write to another system must carry the fence.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Self

from docstore.client.leading import LeadsRoles, checked_roles
from docstore.client.membership import Callback, GroupEnded, GroupMembership
from docstore.client.requests import Requests
from docstore.ownership.by_induction import Induced, Mode
from docstore.services.group_document import ROLES


class Role(GroupMembership, LeadsRoles):
    """Member that leads some of the roles of one name."""

    def __init__(
        self,
        client: Requests,
        name: str,
        *,
        roles: int = 1,
        partitions: int = 0,
        mode: str = str(Mode.EXCLUSIVE),
        session_s: float | None = None,
        group: str = "",
        instance: str = "",
        capacity: int = 1,
        on_acquired: Callback = None,
        on_revoked: Callback = None,
        on_fenced: Callback = None,
    ) -> None:
        """roles: number of roles, carried by `partitions` (0: as many as roles, 64 at most).

        mode: exclusive, or nonExclusive, in which two processes may lead a role for a while rather
        than none. session_s: silence after which a process loses its roles, by default 6 s. group:
        processes of another group lead the same roles independently. If the roles exist with
        another mode, partitions or session than given, `async with` raises Differs. Callbacks may
        be coroutines; a partition is released when `on_revoked` has returned. Raises ValueError if
        `roles` is less than 1.
        """
        self.name = f"{name}.{group}" if group else name
        self.roles = checked_roles(self.name, roles)
        asked: dict[str, Any] = {"mode": mode}
        if partitions:
            asked["partitions"] = partitions
        if session_s is not None:
            asked["sessionMs"] = int(session_s * 1000)
        super().__init__(
            client,
            f"{ROLES}/{self.name}",
            asked,
            instance=instance,
            capacity=capacity,
            callbacks={"Acquired": on_acquired, "Revoked": on_revoked, "Fenced": on_fenced},
        )
        self._wanted = {"name": self.name, "partitions": min(roles, 64), **asked}

    async def __aenter__(self) -> Self:
        """Create the document of the roles unless it exists, and join."""
        await self._driver.insist_on(ROLES, self._wanted)
        return await super().__aenter__()

    @property
    def _induced(self) -> Induced | None:
        return self.member.induced

    async def leave(self, *, drain: bool = True) -> None:
        """Leave; in mode nonExclusive, lead on until a successor does."""
        settings = self.member.settings
        overlaps = settings is not None and settings.mode is Mode.NON_EXCLUSIVE
        await super().leave(drain=drain and overlaps)

    async def led(self, role: int) -> str:
        """Wait until this process leads a role, and return its fence. Raises GroupEnded."""
        while not self.leads(role):
            if self.is_over:
                raise GroupEnded(self.why_over)
            await self.changed()
        return self.fence(role)

    async def while_leading(self, role: int, step: Callable[[], Awaitable[Any] | Any]) -> None:
        """Call `step` repeatedly while the role is led, until this process is no longer a member.

        step: short work, perhaps a coroutine, which is not interrupted. Raises GroupEnded unless
        this process has left.
        """
        while not self.is_over:
            if not self.leads(role):
                await self.changed()
                continue
            result = step()
            if inspect.isawaitable(result):
                await result
            await asyncio.sleep(0)  # A step without a wait must not delay heartbeats.
        self._check_over()
