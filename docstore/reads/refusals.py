"""Translate the refusals of `documents/membership/change.py` into errors for clients."""

from collections.abc import Mapping

from docstore.errors import BadRequest, Conflict, DocstoreError, NotFound


class NotAMember(NotFound):
    """The group has no such member."""

    code = "not-a-member"


class ChangeInFlight(Conflict):
    """Another change of the members is under way."""

    code = "change-in-flight"


class NoChange(Conflict):
    """No change is under way that could be cancelled."""

    code = "no-change"


class AlreadyAMember(Conflict):
    """The node, or its disk, belongs to a member."""

    code = "already-a-member"


class AddressTaken(Conflict):
    """Another member has this address."""

    code = "address-taken"


class TooFewMembers(Conflict):
    """Too few members would remain: the change must be forced."""

    code = "too-few-members"


_BY_CODE: Mapping[str, type[DocstoreError]] = {
    each.code: each
    for each in (
        BadRequest, NotAMember, ChangeInFlight, NoChange, AlreadyAMember, AddressTaken,
        TooFewMembers,
    )
}  # fmt: skip


def refusal(code: str, detail: str) -> DocstoreError:
    """Return the error of a leader's refusal. Raises KeyError for an unknown code."""
    return _BY_CODE[code](detail)
