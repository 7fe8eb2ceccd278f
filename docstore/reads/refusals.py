"""Translate the refusals of `documents/membership/change.py` into errors for clients."""

from collections.abc import Mapping

from docstore.errors import BadRequest, Conflict, DocstoreError, NotFound


class NotAMember(NotFound):
    """There is no such member."""

    code = "not-a-member"


class ChangeInFlight(Conflict):
    """Another change is under way."""

    code = "change-in-flight"


class NoChange(Conflict):
    """There is no change to be cancelled."""

    code = "no-change"


class AlreadyAMember(Conflict):
    """The node, or its disk, is a member's."""

    code = "already-a-member"


class AddressTaken(Conflict):
    """The address is that of another member."""

    code = "address-taken"


class TooFewMembers(Conflict):
    """So few would remain that it must be forced."""

    code = "too-few-members"


_BY_CODE: Mapping[str, type[DocstoreError]] = {
    each.code: each
    for each in (
        BadRequest, NotAMember, ChangeInFlight, NoChange, AlreadyAMember, AddressTaken,
        TooFewMembers,
    )
}  # fmt: skip


def refusal(code: str, detail: str) -> DocstoreError:
    """Return the error that a leader's refusal is. Raises KeyError for a code that none has."""
    return _BY_CODE[code](detail)
