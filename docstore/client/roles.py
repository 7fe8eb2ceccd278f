"""Roles by induction: which of several processes does what, without asking anybody for each step.

    async with client.role("pricing", roles=64, partitions=12, mode="exclusive") as role:
        if role.leads(7):
            await client.put("/prices/EURUSD", quote, fence=role.fence(7))

`leads` looks at a vector and a clock, and may be asked by any thread. It is safe by itself for what
happens in this process and at once; a write that travels takes the fence along.
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
    """Takes part in leading some roles."""

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
        """Lead `roles` roles, carried by `partitions` (0: as many as roles, 64 at most).

        mode: exclusive, or nonExclusive: rather two than none. session_s: after how much silence
        a process is succeeded, else 6 s. group: processes of another group lead the same roles
        beside these. Roles that exist under the name must have the given mode, partitions and
        session: otherwise `async with` raises Differs. Callbacks may be coroutines; a partition is
        released when `on_revoked` has returned. Raises ValueError if `roles` is less than 1.
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
        """Make the document of the roles unless it is there, and take part."""
        await self._driver.insist_on(ROLES, self._wanted)
        return await super().__aenter__()

    @property
    def _induced(self) -> Induced | None:
        return self.member.induced

    async def leave(self, *, drain: bool = True) -> None:
        """Take part no more; where two may lead, go on until a successor does."""
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
        """Run `step` again and again while the role is led, until this process takes part no more.

        step: work of a bite's size, perhaps a coroutine: it is not interrupted. Raises GroupEnded
        unless this process has left.
        """
        while not self.is_over:
            if not self.leads(role):
                await self.changed()
                continue
            result = step()
            if inspect.isawaitable(result):
                await result
            await asyncio.sleep(0)  # A step that never waits must not keep heartbeats back.
        self._check_over()
