"""Guard for acts in the name of a role, whatever policy made the process its leader.

A look at a vector and a clock; any thread may ask. It is safe by itself for what happens in this
process and at once; a write that travels takes the fence along.
"""

from abc import ABC, abstractmethod

from docstore.client.errors import ClientError
from docstore.ownership.by_induction import Induced, partition_of


class NotLeading(ClientError):
    """This process does not lead that role (any more): nothing should be done in its name."""


def checked_roles(name: str, roles: int) -> int:
    """Return how many roles a name has. Raises ValueError."""
    if roles < 1:
        raise ValueError(f"{name}: roles is {roles}: it is a whole number, 1 or more")
    return roles


class LeadsRoles(ABC):
    """Roles 0 to `roles` - 1 of one name."""

    name: str
    roles: int

    @abstractmethod
    def now(self) -> float:
        """Return the clock by which proofs are counted, as `event.protected(now)` wants it."""

    @property
    @abstractmethod
    def _induced(self) -> Induced | None:
        """Return what this process has; None before it takes part."""

    def leads(self, role: int) -> bool:
        """Say whether this process leads a role, now. Raises ValueError: there is no such role."""
        self._check(role)
        induced = self._induced
        return induced is not None and induced.leads(role, self.now())

    def leads_key(self, key: str, slots: int = 0) -> bool:
        """Say whether this process leads the hash slot of a key; 0 slots: as many as roles."""
        if slots < 0:
            raise ValueError(
                f"{self.name}: slots is {slots}: it is 1 or more, or 0 for as many as roles"
            )
        induced = self._induced
        return induced is not None and induced.leads_key(key, slots or self.roles, self.now())

    def token(self, role: int) -> int:
        """Return the token of the tenure.

        Raises NotLeading without one, ValueError: there is no such role.
        """
        self._check(role)
        token = None if self._induced is None else self._induced.token(role)
        if token is None:
            raise NotLeading(f"{self.name}: role {role} is not led here")
        return token

    def fence(self, role: int) -> str:
        """Return what guarded writes take along. Raises NotLeading unless the role is led now."""
        token = self.token(role)
        if not self.leads(role):
            raise NotLeading(f"{self.name}: role {role} is not led here any more")
        return f"roles/{self.name}/{role}:{token}"

    def _check(self, role: int) -> None:
        if not 0 <= role < self.roles:
            raise ValueError(
                f"{self.name}: there is no role {role}: they are numbered 0 to {self.roles - 1};"
                " another number of them is given with roles="
            )

    def roles_of(self, partition: int) -> list[int]:
        """Return the roles that a partition carries, as events name it."""
        size = 1 if self._induced is None else self._induced.partitions
        return [role for role in range(self.roles) if partition_of(role, size) == partition]
