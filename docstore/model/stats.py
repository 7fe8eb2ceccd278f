"""Statistics of a service: requests, failures and durations.

Entries have the names and the form of Xenon's `ServiceStats`. Each node measures the requests that
it serves; a client gets the sum over the nodes. Instants are of the wall clock, durations of the
monotonic clock.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Entry = dict[str, Any]
Entries = dict[str, Entry]

BINS = 15
"""Bins of a histogram: durations of 1 to 9 us, 10 to 99, and so on; the last has all others."""
MINUTE_US = 60_000_000
MINUTES = 60


@dataclass(slots=True)
class Minute:
    """Measurements of one minute, in microseconds."""

    count: int = 0
    total: int = 0
    least: int = 1 << 62
    most: int = 0

    def note(self, took_us: int) -> None:
        self.count += 1
        self.total += took_us
        self.least = min(self.least, took_us)
        self.most = max(self.most, took_us)

    def page(self) -> Entry:
        return {
            "count": self.count,
            "avg": self.total / self.count,
            "min": self.least,
            "max": self.most,
        }


@dataclass(slots=True)
class Measure:
    """Statistics of the requests of one method at one service."""

    count: int = 0
    failed: int = 0
    total_us: int = 0
    latest_us: int = 0
    updated_us: int = 0
    failed_us: int = 0
    bins: list[int] = field(default_factory=lambda: [0] * BINS)
    minutes: dict[int, Minute] | None = None
    """Begin of a minute -> its measurements; None where no time series is kept."""

    def note(self, took_us: int, now_us: int, *, has_failed: bool) -> None:
        self.count += 1
        self.total_us += took_us
        self.latest_us = took_us
        self.updated_us = now_us
        self.bins[min(len(str(took_us)), BINS) - 1] += 1
        if has_failed:
            self.failed += 1
            self.failed_us = now_us
        if self.minutes is not None:
            began = now_us - now_us % MINUTE_US
            if began not in self.minutes:
                self.minutes[began] = Minute()
                if len(self.minutes) > MINUTES:
                    del self.minutes[next(iter(self.minutes))]
            self.minutes[began].note(took_us)

    def entries(self, verb: str) -> Entries:
        took = f"{verb}operationDurationMicros"
        duration = {
            **_entry(took, self.latest_us, self.total_us, self.count, self.updated_us),
            "logHistogram": {"bins": list(self.bins)},
        }
        if self.minutes is not None:
            bins = {str(began): minute.page() for began, minute in self.minutes.items()}
            duration["timeSeriesStats"] = {
                "binDurationMillis": MINUTE_US // 1000, "numBins": MINUTES, "bins": bins,
            }  # fmt: skip
        entries = {took: duration, **counted(f"{verb}requestCount", self.count, self.updated_us)}
        if self.failed:
            entries |= counted(f"{verb}failureCount", self.failed, self.failed_us)
        return entries


def entries_of(measures: Mapping[str, Measure]) -> Entries:
    each = (measure.entries(verb) for verb, measure in measures.items())
    return {name: entry for entries in each for name, entry in entries.items()}


def counted(name: str, count: int, updated_us: int) -> Entries:
    return {name: _entry(name, count, count, count, updated_us)}


def availability(now_us: int, *, is_available: bool) -> Entries:
    value = int(is_available)
    return {"isAvailable": _entry("isAvailable", value, value, 1, now_us)}


def _entry(name: str, latest: int, accumulated: int, version: int, updated_us: int) -> Entry:
    return {
        "name": name,
        "latestValue": latest,
        "accumulatedValue": accumulated,
        "version": version,
        "lastUpdateMicros": updated_us,
    }


def metrics_of(services: Mapping[str, Mapping[str, Measure]]) -> Iterator[tuple[str, float]]:
    """Yield Prometheus metrics of factories, by path and method."""
    for path, measures in services.items():
        escaped = path.replace('"', r"\"")
        for verb, measure in measures.items():
            labels = f'{{factory="{escaped}",method="{verb}"}}'
            yield f"docstore_factory_requests_total{labels}", float(measure.count)
            yield f"docstore_factory_failures_total{labels}", float(measure.failed)
            yield f"docstore_factory_request_seconds_total{labels}", measure.total_us / 1e6


def merged(parts: Iterable[Mapping[str, Entry]]) -> Entries:
    whole: Entries = {}
    for part in parts:
        for name, entry in part.items():
            whole[name] = _sum(whole[name], entry) if name in whole else entry
    return {name: whole[name] for name in sorted(whole)}


def _sum(one: Entry, other: Entry) -> Entry:
    newer = max(one, other, key=lambda entry: int(entry["lastUpdateMicros"]))
    both: Entry = {
        **newer,
        "accumulatedValue": one["accumulatedValue"] + other["accumulatedValue"],
        "version": one["version"] + other["version"],
    }
    if "logHistogram" not in newer:  # A counter: its value is the sum.
        both["latestValue"] = both["accumulatedValue"]
        return both
    pairs = zip(one["logHistogram"]["bins"], other["logHistogram"]["bins"], strict=True)
    both["logHistogram"] = {"bins": [sum(pair) for pair in pairs]}
    if "timeSeriesStats" in newer:
        series = one["timeSeriesStats"]["bins"], other["timeSeriesStats"]["bins"]
        both["timeSeriesStats"] = {**newer["timeSeriesStats"], "bins": _sum_of_series(*series)}
    return both


def _sum_of_series(one: Mapping[str, Entry], other: Mapping[str, Entry]) -> Entries:
    """Add two time series; keep the newest minutes."""
    both = {began: _sum_of_minutes(one.get(began), other.get(began)) for began in {*one, *other}}
    newest = sorted(both, key=int)[-MINUTES:]
    return {began: both[began] for began in newest}


def _sum_of_minutes(one: Entry | None, other: Entry | None) -> Entry:
    if one is None or other is None:
        return one or other or {}
    count = one["count"] + other["count"]
    total = one["avg"] * one["count"] + other["avg"] * other["count"]
    return {
        "count": count,
        "avg": total / count,
        "min": min(one["min"], other["min"]),
        "max": max(one["max"], other["max"]),
    }
