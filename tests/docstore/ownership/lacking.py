"""Electors that lack one rule each: the vote's ablations."""

from docstore.ownership.by_vote import Role
from docstore.ownership.elector import Elector
from docstore.ownership.elector_messages import Follow


class Fickle(Elector):
    """Grants votes although it hears a leader, or has just started."""

    def _is_bound(self, now: float) -> bool:
        return False


class Hasty(Elector):
    """Votes as soon as it has started."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self._bound_until = -1.0


class Stubborn(Elector):
    """Leads as long as it hears of no other leader."""

    def leads(self, now: float) -> bool:
        return self.role is Role.LEADER

    def _check_quorum(self, now: float) -> None:
        pass


class Exact(Elector):
    """Trusts its clock: no allowance for rates."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **(settings | {"rho": 0.0}))  # type: ignore[arg-type]


class Receiver(Elector):
    """Counts an answer from its arrival."""

    def _followed_by(self, sender: str, follow: Follow, now: float) -> None:
        super()._followed_by(sender, follow._replace(sent_s=now), now)


class Forgetful(Elector):
    """Votes as if each start were its first."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **(settings | {"stored": (0, "")}))  # type: ignore[arg-type]


class Clinging(Elector):
    """Leads on after it has handed over to a successor."""

    def leads(self, now: float) -> bool:
        is_handing = self.role is Role.LEADER and bool(self._successor)
        return is_handing or super().leads(now)
