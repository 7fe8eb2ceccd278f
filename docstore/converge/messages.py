"""What nodes say to each other to bring versions at levels 1 and 2 to every replica."""

from collections.abc import Sequence
from typing import NamedTuple

from docstore.model.document import Row


class Offering(NamedTuple):
    """To a peer, on a new link: my disk's name, and the number of its last arrival."""

    disk: str
    n: int


class Following(NamedTuple):
    """Answer: of your disk `of` I have everything up to n, durably, on my own `disk`.

    asks: for an Offering, because I want to know whether that is all.
    """

    of: str
    n: int
    disk: str
    asks: bool = False


class Spread(NamedTuple):
    """What arrived at `disk` after number `after`, up to n: versions at levels 1 and 2.

    rows: those that this disk wrote. names: (link, hand, stamp) of the others. end: how far there
    is more to come.
    """

    disk: str
    after: int
    n: int
    end: int
    rows: Sequence[Row]
    names: Sequence[tuple[str, str, int]]


class Lack(NamedTuple):
    """Answer to page n of disk `of`: I know nothing like these links' versions, send them."""

    of: str
    n: int
    links: Sequence[str]


class Supply(NamedTuple):
    """Answer to Lack: what those versions have become by now."""

    disk: str
    n: int
    rows: Sequence[Row]


Spreading = Offering | Following | Spread | Lack | Supply
