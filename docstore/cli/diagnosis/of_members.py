"""Findings on the membership of a group: silent members, votes, zones, unfinished changes."""

from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding
from docstore.cli.diagnosis.seen import Page, Seen
from docstore.model.words import count

CHANGING = "operations.md#changing-the-group"
SETTINGS = "operations.md#running-nodes"
SPOKEN = {"UNKNOWN": "unknown to the others", "LEFT": "stopped"}
"""States whose names are replaced by other words in a sentence."""


def findings(seen: Seen) -> Iterator[Finding]:
    for member in seen.members:
        yield from _of_member(seen, member)
    yield from _of_votes(seen)
    yield from _of_zones(seen)
    yield from _of_change(seen)


def _of_member(seen: Seen, member: Page) -> Iterator[Finding]:
    name, status = str(member["id"]), str(member["status"])
    if status != "ALIVE" and member["role"] != "leaving":
        yield Finding(
            WRONG, name, _how_long(seen, name, SPOKEN.get(status, status.lower())),
            "start it again, or find out why the other members cannot reach it; if it is lost, "
            f"replace it (`docstore replace {name}`) or remove it (`docstore remove {name}`)",
            CHANGING,
        )  # fmt: skip
    elif (node := seen.nodes.get(name)) is not None and node.why_not:
        yield Finding(
            WRONG, name, f"it does not answer at {member['address']}: {node.why_not}",
            "read its log, and check that its address is reachable from here", SETTINGS,
        )  # fmt: skip
    if member["role"] == "learner":
        yield Finding(
            RISK, name, "it is still copying data, and counts neither as a vote nor as a copy yet",
            "wait; `docstore status` shows the progress", CHANGING,
        )  # fmt: skip


def _how_long(seen: Seen, name: str, spoken: str) -> str:
    for each in seen.group["members"]:
        if each["id"] == name:
            return f"it has been {spoken} for {_duration(each['secondsSinceChange'])}"
    return f"it is {spoken}"


def _duration(seconds: float) -> str:
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return count(int(seconds // size), unit)
    return count(int(seconds), "second")


def _of_votes(seen: Seen) -> Iterator[Finding]:
    voters, quorum = seen.configuration["voters"], seen.configuration["quorum"]
    there = [each for each in voters if seen.is_there(each)]
    if len(there) < quorum:
        yield Finding(
            WRONG, "", f"{len(there)} of {count(len(voters), 'voter')} are available, and the "
            f"quorum is {quorum}: members cannot be changed, and many documents cannot be written",
            "start the missing voters; only if they are permanently lost, run `docstore "
            "force-config` on a survivor", CHANGING,
        )  # fmt: skip
    elif len(voters) > 1 and len(there) == quorum:
        yield Finding(
            RISK, "", f"{len(there)} of {count(len(voters), 'voter')} are available, so none of "
            "them may fail", "start the missing voters, or add members", CHANGING,
        )  # fmt: skip
    if len(voters) == 1:
        yield Finding(
            RISK, str(voters[0]), "it is the only member: its disk has the only copy of all data",
            "add two more members (`docstore serve --join`)", CHANGING,
        )  # fmt: skip


def _of_zones(seen: Seen) -> Iterator[Finding]:
    for warning in seen.group.get("warnings", ()):
        yield Finding(RISK, "", warning, "add members in other zones", CHANGING)
    zones = {str(each["id"]): str(each["zone"]) for each in seen.members}
    if len(set(zones.values())) > 1:
        yield from _of_copies(seen, zones)
    yield from _of_machines(seen, zones)


def _of_copies(seen: Seen, zones: dict[str, str]) -> Iterator[Finding]:
    """Yield findings on zones with most copies of a slot.

    If every member has one, the group's page already warns.
    """
    tight: Counter[str] = Counter()
    for slot in seen.selector["table"]:
        copies = slot["replicas"]
        if len(copies) == len(zones) or len(copies) < 2:
            continue
        zone, most = Counter(zones.get(each, "") for each in copies).most_common(1)[0]
        tight[zone] += most > len(copies) // 2
    for zone, slots in tight.items():
        if slots:
            yield Finding(
                RISK, "", f"{_zone(zone)} has most copies of {count(slots, 'slot')}: if it fails, "
                "their documents cannot be written", "add members in other zones", SETTINGS,
            )  # fmt: skip


def _zone(zone: str) -> str:
    return f"zone {zone}" if zone else "the set of nodes without a zone"


def _of_machines(seen: Seen, zones: dict[str, str]) -> Iterator[Finding]:
    hosts: dict[str, list[str]] = {}
    for each in seen.members:
        host = urlsplit(each["address"]).hostname or ""
        if host and not host.startswith(("127.", "localhost", "::1")):
            hosts.setdefault(host, []).append(each["id"])
    for host, names in hosts.items():
        if len({zones[name] for name in names}) > 1 or (len(names) > 1 and not zones[names[0]]):
            yield Finding(
                RISK, "", f"{' and '.join(names)} are on one machine, {host}, but not in one zone",
                "give all nodes of a machine the same `zone`, so that copies spread over machines",
                SETTINGS,
            )  # fmt: skip


def _of_change(seen: Seen) -> Iterator[Finding]:
    if (stage := seen.configuration["stage"]) != "stable":
        yield Finding(
            RISK, "", f"its members are being changed ({stage}); it may wait for a new node",
            "wait, or undo the change with `docstore cancel`", CHANGING,
        )  # fmt: skip
    if forced := seen.configuration.get("forced"):
        yield Finding(
            RISK, "", f"its configuration was forced {count(forced, 'time')}: writes that only the "
            "lost nodes had are gone", "compare the data with a backup", CHANGING,
        )  # fmt: skip
    are_all_there = all(seen.is_there(str(each["id"])) for each in seen.members)
    if seen.group["convergence"] != "CONVERGED" and are_all_there:
        yield Finding(
            RISK, "", "some live nodes have no link to each other",
            "wait a minute; then check that every machine reaches all peer ports", SETTINGS,
        )  # fmt: skip
