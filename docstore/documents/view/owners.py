"""Who acts for a slot: its owner, or who executes what needs none."""

from collections.abc import Iterable

from docstore.documents.core import Core
from docstore.documents.eventual.execute import Executor
from docstore.documents.leadership.vacancies import Vacancies
from docstore.documents.membership.transfer import Transfer
from docstore.documents.owners import owner_of
from docstore.documents.reign import Phase, Reign


class OwnersView:
    """The owners of slots, as far as this node knows; of its own it is sure."""

    def __init__(
        self, core: Core, executor: Executor, transfer: Transfer, vacancies: Vacancies
    ) -> None:
        self._core = core
        self._vacancies = vacancies
        self._executor = executor
        self._transfer = transfer

    def owner_of(self, slot: int) -> str | None:
        """Return whom to ask about a slot: who owns it, else who should, else nobody."""
        return owner_of(self._core, slot)

    def owners_of(self, slots: Iterable[int]) -> dict[str, list[int]]:
        """Return owner -> slots, without those that nobody can be asked for."""
        owners: dict[str, list[int]] = {}
        for slot in slots:
            owner = owner_of(self._core, slot)
            if owner is not None:
                owners.setdefault(owner, []).append(slot)
        return owners

    @property
    def vacant(self) -> int:
        """Return how many slots have lacked an owner for longer than a hand-over takes."""
        return self._vacancies.lasting()

    def vacant_among(self, slots: Iterable[int]) -> int:
        """Return how many of these nobody owns, as far as is heard here."""
        return self._vacancies.among(slots)

    def reign_of(self, slot: int) -> int:
        """Return the epoch under which this node owns a slot, 0 if it does not."""
        reign = self._open(slot)
        return reign.ballot[0] if reign is not None else 0

    def owns(self, slot: int) -> bool:
        """Say whether this node owns a slot."""
        return self._open(slot) is not None

    def owned(self) -> list[int]:
        """Return the slots that this node owns."""
        return [log.slot for log, each in self._core.logs.reigns() if each.phase is Phase.OPEN]

    @property
    def has_to_give(self) -> bool:
        """Say whether this node owns slots, or leads the register, and another node could."""
        could = any(map(self._core.may_own, self._core.peers))
        if could and self._core.logs.reigns():
            return True
        return self._transfer.heir() is not None

    def is_still(self, slot: int) -> bool:
        """Say whether this node owns a slot, stands still, and has nothing under way there."""
        reign, log = self._open(slot), self._core.logs.get(slot)
        if reign is None or log is None or not reign.updates_deferred_until:
            return False
        return not reign.is_writing and log.decided == log.end

    def executes(self, slot: int, level: int) -> str | None:
        """Return who executes an operation of level 1 or 2 that comes in here, None if nobody."""
        return self._executor.who(slot, level)

    def is_behind(self, level: int) -> bool:
        """Say whether this node does not serve level 1 or 2 yet: it may lack what it had."""
        return self._executor.is_behind(level)

    def _open(self, slot: int) -> Reign | None:
        log = self._core.logs.get(slot)
        return log.open_reign if log is not None else None
