"""Guard for actions in the name of a role, whichever policy made this process its leader.

The answer comes from a vector and a clock, and any thread may ask. It is enough for actions inside
this process that happen at once. A write to another system must carry the fence.
"""

from abc import ABC, abstractmethod

from docstore.client.errors import ClientError
from docstore.ownership.by_induction import Induced, partition_of


class NotLeading(ClientError):
    """This process does not lead the role: it must not act in its name."""


def checked_roles(name: str, roles: int) -> int:
    """Return the number of roles, which must be at least 1. Raises ValueError."""
    if roles < 1:
        raise ValueError(f"{name}: `roles` must be a whole number, 1 or more; got {roles}")
    return roles


class LeadsRoles(ABC):
    """Roles 0 to `roles` - 1 of one name, of which this process may lead some."""

    name: str
    roles: int

    @abstractmethod
    def now(self) -> float:
        """Return the time by the clock of proofs, for `event.protected(now)`."""

    @property
    @abstractmethod
    def _induced(self) -> Induced | None:
        """Return the vector of what this process leads; None before it takes part."""

    def leads(self, role: int) -> bool:
        """Say whether this process leads a role now. Raises ValueError if there is no such role."""
        self._check(role)
        induced = self._induced
        return induced is not None and induced.leads(role, self.now())

    def leads_key(self, key: str, slots: int = 0) -> bool:
        """Say whether this process leads the hash slot of a key; 0 slots: as many as roles."""
        if slots < 0:
            raise ValueError(
                f"{self.name}: `slots` must be 1 or more, or 0 for as many as `roles`; got {slots}"
            )
        induced = self._induced
        return induced is not None and induced.leads_key(key, slots or self.roles, self.now())

    def token(self, role: int) -> int:
        """Return the token of the tenure.

        Raises NotLeading without one, ValueError for no such role.
        """
        self._check(role)
        token = None if self._induced is None else self._induced.token(role)
        if token is None:
            raise NotLeading(f"{self.name}: this process does not lead role {role}")
        return token

    def fence(self, role: int) -> str:
        """Return the fence that guarded writes must carry.

        Raises NotLeading unless the role is led now.
        """
        token = self.token(role)
        if not self.leads(role):
            raise NotLeading(f"{self.name}: this process no longer leads role {role}")
        return f"roles/{self.name}/{role}:{token}"

    def _check(self, role: int) -> None:
        if not 0 <= role < self.roles:
            raise ValueError(
                f"{self.name}: role must be from 0 to {self.roles - 1}; got "
                f"{role} (roles= sets how many there are)"
            )

    def roles_of(self, partition: int) -> list[int]:
        """Return the roles of a partition, which is numbered as in events."""
        size = 1 if self._induced is None else self._induced.partitions
        return [role for role in range(self.roles) if partition_of(role, size) == partition]
