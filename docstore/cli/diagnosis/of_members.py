"""Findings on who is in the group: silent members, votes, zones, changes under way."""

from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding
from docstore.cli.diagnosis.seen import Page, Seen
from docstore.model.words import count

CHANGING = "operations.md#changing-the-group"
SETTINGS = "operations.md#running-nodes"
SPOKEN = {"UNKNOWN": "unknown to the others", "LEFT": "stopped"}
"""States that do not say what they are."""


def findings(seen: Seen) -> Iterator[Finding]:
    """Yield what there is to say."""
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
            "start it again, or look why the others do not reach it; if it is gone for good, "
            f"replace it (`docstore replace {name}`) or take it out (`docstore remove {name}`)",
            CHANGING,
        )  # fmt: skip
    elif (node := seen.nodes.get(name)) is not None and node.why_not:
        yield Finding(
            WRONG, name, f"it does not answer at {member['address']}: {node.why_not}",
            "look at its log, and whether its address is reached from here", SETTINGS,
        )  # fmt: skip
    if member["role"] == "learner":
        yield Finding(
            RISK, name, "it is being filled, and counts for nothing until it is",
            "wait; `docstore status` shows how far it is", CHANGING,
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
            WRONG, "", f"{len(there)} of {count(len(voters), 'voter')} are there, and it takes "
            f"{quorum}: the members cannot be changed, and many documents not be written",
            "bring one of them back; only if they are lost for ever, `docstore force-config` on a "
            "survivor", CHANGING,
        )  # fmt: skip
    elif len(voters) > 1 and len(there) == quorum:
        yield Finding(
            RISK, "", f"{len(there)} of {count(len(voters), 'voter')} are there, and none of them "
            "may be lost", "bring the others back, or let more members in", CHANGING,
        )  # fmt: skip
    if len(voters) == 1:
        yield Finding(
            RISK, str(voters[0]), "it is alone: its disk has the only copy of everything",
            "let two more members in (`docstore serve --join`)", CHANGING,
        )  # fmt: skip


def _of_zones(seen: Seen) -> Iterator[Finding]:
    for warning in seen.group.get("warnings", ()):
        yield Finding(RISK, "", warning, "let members of other zones in", CHANGING)
    zones = {str(each["id"]): str(each["zone"]) for each in seen.members}
    if len(set(zones.values())) > 1:
        yield from _of_copies(seen, zones)
    yield from _of_machines(seen, zones)


def _of_copies(seen: Seen, zones: dict[str, str]) -> Iterator[Finding]:
    """Where fewer than all members have a copy: the page of the group says the other."""
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
                RISK, "", f"{_zone(zone)} has most copies of {count(slots, 'slot')}: while it is "
                "lost, their documents are not written", "let members of other zones in", SETTINGS,
            )  # fmt: skip


def _zone(zone: str) -> str:
    return f"zone {zone}" if zone else "what has no zone"


def _of_machines(seen: Seen, zones: dict[str, str]) -> Iterator[Finding]:
    hosts: dict[str, list[str]] = {}
    for each in seen.members:
        host = urlsplit(each["address"]).hostname or ""
        if host and not host.startswith(("127.", "localhost", "::1")):
            hosts.setdefault(host, []).append(each["id"])
    for host, names in hosts.items():
        if len({zones[name] for name in names}) > 1 or (len(names) > 1 and not zones[names[0]]):
            yield Finding(
                RISK, "", f"{' and '.join(names)} are on one machine, {host}, and share no zone",
                "give the nodes of one machine one `zone`, so that copies spread over machines",
                SETTINGS,
            )  # fmt: skip


def _of_change(seen: Seen) -> Iterator[Finding]:
    if (stage := seen.configuration["stage"]) != "stable":
        yield Finding(
            RISK, "", f"its members are being changed ({stage}), which may wait for a newcomer",
            "wait; `docstore cancel` undoes it", CHANGING,
        )  # fmt: skip
    if forced := seen.configuration.get("forced"):
        yield Finding(
            RISK, "", f"its configuration was forced {count(forced, 'time')}: what only lost nodes "
            "had is gone", "nothing is left to be done; compare with a backup", CHANGING,
        )  # fmt: skip
    everybody = all(seen.is_there(str(each["id"])) for each in seen.members)
    if seen.group["convergence"] != "CONVERGED" and everybody:
        yield Finding(
            RISK, "", "not all nodes that are alive are linked with each other",
            "wait a minute; then look whether peer ports are reached from every machine", SETTINGS,
        )  # fmt: skip
