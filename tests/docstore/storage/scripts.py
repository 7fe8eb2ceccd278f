"""Random writes to a store, and all queries that it can answer."""

from dataclasses import replace

from hypothesis import strategies as st

from docstore.model.document import Row
from docstore.storage.inserts import MANY
from docstore.storage.replication_log import (
    Aged,
    Arrivals,
    Arrive,
    BranchStatus,
    Heads,
    Lines,
    Prune,
    SaveCursor,
    SetStatus,
)
from docstore.storage.store import (
    UNBOUNDED,
    After,
    Append,
    AsOf,
    Base,
    Erase,
    Expired,
    History,
    LastBefore,
    Newest,
    NewestOfMany,
    Purge,
    Query,
    Rows,
    SaveConfiguration,
    SaveSlot,
    SlotRecord,
    Status,
    Tables,
    Tombstones,
    Trim,
    Truncate,
    Version,
    Write,
)
from tests.docstore.storage.logs import FOR_EVER
from tests.memory.ledger import Ledger

LINKS = ["/a/b", "/a/b/c", "/a/b/c/d", "/a/d", "/a/é", "/a0", "/e", "/a/\U0001f600"]
PREFIXES = ["/", "/a/", "/a/b/", "/none/"]
SLOTS = [0, 1, 700]

slots = st.sampled_from(SLOTS)
small = st.integers(0, 6)
births = st.tuples(st.sampled_from(LINKS), st.booleans(), st.integers(1, 3))
changes = st.one_of(
    st.tuples(st.just("append"), slots, st.lists(births, max_size=6)),
    st.tuples(st.just("cut"), slots, small),
    st.tuples(st.just("erase"), slots, small),
    st.tuples(st.just("trim"), slots, small),
    st.tuples(st.just("base"), slots, st.lists(births, max_size=4)),
    st.tuples(st.just("save"), slots, small),
    st.tuples(st.just("configure"), slots, small),
    st.tuples(st.just("purge"), slots, small),
    st.tuples(st.just("arrive"), slots, st.lists(births, max_size=4)),
    st.tuples(st.just("status"), slots, small),
    st.tuples(st.just("prune"), slots, small),
    st.tuples(st.just("cursor"), slots, small),
)
scripts = st.lists(st.lists(changes, max_size=4), max_size=6)


def born(ledger: Ledger, slot: int, births: list[tuple[str, bool, int]]) -> Append:
    """Return rows that continue the ledger, with gaps between versions and times."""
    end = ledger.end(slot)
    rows: list[Row] = []
    for link, deleted, step in births:
        before = [row for row in rows if row.link == link]
        before = before or ledger.answer(Newest(slot, link, FOR_EVER))
        n = end + 1 + len(rows)
        version = before[-1].version + step if before else step - 1
        state = b"s" * (40 * step) if step < 3 else b'{"documentExpirationTimeMicros":%d}' % n
        operation = b"i" if n % 3 else b"\x9c, as if it had an agenda"
        fields = (
            n,
            3,
            "n1",
            link,
            version,
            "PUT",
            10 * n + step,
            deleted,
            b"",
            operation,
            b"%d" % n,
        )
        rows.append(Row(slot, *fields, state))
    return Append(rows)


def record(slot: int, number: int, kept: int) -> SaveSlot:
    ballots = (((number, "n1"), 1),) * (number % 3)
    status = list(Status)[number % 2]
    found = SlotRecord(slot, (number, "n2"), (1, "é"), ballots, status=status, kept=kept)
    return SaveSlot(found)


def trimmed(ledger: Ledger, slot: int, rows: int) -> list[Write]:
    """Trim superseded rows up to some rows below the end."""
    after, end = ledger.kept(slot), ledger.end(slot)
    kept = max(after, end - rows)
    versions = {"/a": 2, "/a/b": 3} if rows % 2 else {}
    return [Trim(slot, after, kept, versions), record(slot, 1, kept)]


def based(slot: int, births: list[tuple[str, bool, int]]) -> list[Write]:
    """Begin a slot anew, with holes."""
    born_rows = {row.link: row for row in born(Ledger(), slot, births).rows}
    rows = sorted((row._replace(n=3 * row.n) for row in born_rows.values()), key=lambda r: r.n)
    kept = rows[-1].n + 2 if rows else 5
    return [Erase(slot), Base(rows), record(slot, 2, kept)]


def purged(ledger: Ledger, slot: int, rows: int) -> list[Write]:
    """Remove some of the deleted links below the kept rows."""
    old = ledger.answer(Tombstones(slot, ledger.kept(slot), FOR_EVER, rows))
    return [Purge(slot, [(row.link, row.version) for row in old])]


def arrived(ledger: Ledger, slot: int, births: list[tuple[str, bool, int]]) -> list[Write]:
    """Let versions of levels 1 and 2 arrive."""
    last = ledger.recovered("", 1).arrived
    rows = born(Ledger(), slot, births).rows
    return [
        Arrive(row._replace(n=last + 1 + index), BranchStatus((row.n + row.version) % 3))
        for index, row in enumerate(rows)
    ]


def some(ledger: Ledger, number: int) -> list[Row]:
    return ledger.answer(Arrivals(number, 2))


def writes_of(ledger: Ledger, change: tuple[str, int, object]) -> list[Write]:
    match change:
        case ("append", slot, list(births)):
            return [born(ledger, slot, births)]
        case ("cut", slot, int(rows)):
            return [Truncate(slot, max(ledger.kept(slot), ledger.end(slot) - rows))]
        case ("erase", slot, _):
            return [Erase(slot), record(slot, 0, 0)]
        case ("trim", slot, int(rows)):
            return trimmed(ledger, slot, rows)
        case ("base", slot, list(births)):
            return based(slot, births)
        case ("purge", slot, int(rows)):
            return purged(ledger, slot, rows)
        case ("arrive", slot, list(births)):
            return arrived(ledger, slot, births)
        case ("status", _, int(number)):
            return [SetStatus(row.n, BranchStatus(number % 3)) for row in some(ledger, number)]
        case ("prune", _, int(number)):
            last = ledger.recovered("", 1).arrived
            return [Prune([row.n for row in some(ledger, number) if row.n < last])]
        case ("cursor", slot, int(number)):
            return [SaveCursor(f"disk{slot}", 1, number)]
        case ("save", slot, int(number)):
            return [record(slot, number, ledger.kept(slot))]
        case (_, _, number):
            return [SaveConfiguration(b"%d" % number)]


def queries() -> list[Query]:
    asked: list[Query] = []
    for slot in SLOTS:
        asked += [Rows(slot, 1, 99), Rows(slot, 2, 4), Rows(slot, 1, 99, bytes_max=400)]
        asked += [After(slot, 0, 99, 3), After(slot, 4, 99, 99), After(slot, 2, 6, 99, 400)]
        asked += [LastBefore(slot, 10 * n, until) for n in (2, 5, 99) for until in (3, 9)]
        asked += [Tombstones(slot, until, 10 * until, 9) for until in (3, 9, 99)]
        for link in LINKS:
            asked += [Heads(slot, link), Lines(slot, link, 9)]
            for until in (1, 3, FOR_EVER):
                asked += [
                    Newest(slot, link, until),
                    Version(slot, link, 1, until),
                    AsOf(slot, link, 32, until),
                    History(slot, link, 3, 2, until),
                    History(slot, link, None, 99, until),
                    History(slot, link, None, 99, until, 300),
                ]
    asked += [Arrivals(0, 99), Arrivals(1, 2), Arrivals(0, 99, bytes_max=400)]
    places = [(0, -1, -1), (1, 0, 1), (1, 1, 0), (2, 0, 2), (4, 9, 9)]
    asked += [Expired(5, 9, level, after=place) for level in (2, 3) for place in places]
    asked += [Aged(standing, 25, 9) for standing in (BranchStatus.PAST, BranchStatus.LOSER)]
    return asked


def queries_of_many() -> list[NewestOfMany]:
    links = [(slot, link) for slot in SLOTS for link in LINKS]
    links += [(0, f"/no/{number}") for number in range(MANY - len(links) % MANY)]
    return [NewestOfMany([(*link, until) for link in links]) for until in (1, 3, FOR_EVER)]


async def answers_of(store: Tables) -> list[object]:
    """Return a store's answers to all queries."""
    everything: list[object] = [replace(await store.recover(), store_id="")]
    everything += await store.read(queries())
    newest = await store.read(queries_of_many())
    everything += [sorted(each) if isinstance(each, list) else each for each in newest]
    for asked in (dict.fromkeys(SLOTS, UNBOUNDED), {0: 3, 1: 1, 700: 5}, {1: 4}, {}):
        for prefix in PREFIXES:
            everything.append(await store.count(prefix, asked))
            everything += [
                await store.links(prefix, after, limit, asked)
                for after in ("", "/a/b", "/a/b/c")
                for limit in (2, 99)
            ]
            everything.append(await store.count(prefix, asked, level=1))
            everything.append(await store.links(prefix, "", 99, asked, level=1))
            everything.append(await store.below(prefix, asked))
            everything.append(await store.with_agenda(prefix, asked))
    everything.append(await store.digests([*SLOTS, 5]))
    return everything
