"""Measurements as entries, and the entries of several nodes as one set."""

from docstore.model.stats import (
    BINS,
    MINUTE_US,
    MINUTES,
    Entry,
    Measure,
    availability,
    counted,
    entries_of,
    merged,
    metrics_of,
)

TOOK = "GEToperationDurationMicros"


def measure(*took_us: int, begins_us: int = 0, **members: object) -> Measure:
    """Return the measurement of requests, one a second."""
    found = Measure(**members)  # type: ignore[arg-type]
    for number, each in enumerate(took_us):
        found.note(each, begins_us + number * 1_000_000, has_failed=each == 13)
    return found


def duration(found: Measure) -> Entry:
    return found.entries("GET")[TOOK]


def test_an_entry_has_count_duration_and_last_time() -> None:
    entries = measure(5, 70, 13).entries("PUT")
    assert {each["name"] for each in entries.values()} == set(entries)
    assert entries["PUTrequestCount"] == {
        "name": "PUTrequestCount", "latestValue": 3, "accumulatedValue": 3, "version": 3,
        "lastUpdateMicros": 2_000_000,
    }  # fmt: skip
    took = entries["PUToperationDurationMicros"]
    assert (took["latestValue"], took["accumulatedValue"], took["version"]) == (13, 88, 3)
    assert entries["PUTfailureCount"]["accumulatedValue"] == 1
    assert "GETfailureCount" not in measure(5).entries("GET")


def test_a_histogram_is_by_powers_of_ten() -> None:
    bins = duration(measure(0, 9, 10, 99, 100, 10**13, 10**14, 10**20))["logHistogram"]["bins"]
    assert bins == [2, 2, 1, *[0] * 10, 1, 2]
    assert len(bins) == BINS


def test_a_time_series_has_the_last_minutes() -> None:
    found = measure(minutes={})
    for minute in range(MINUTES + 5):
        for took_us in (4, 8):
            found.note(took_us, minute * MINUTE_US + took_us, has_failed=False)
    series = duration(found)["timeSeriesStats"]
    assert (series["binDurationMillis"], series["numBins"]) == (60_000, MINUTES)
    assert list(series["bins"]) == [str(n * MINUTE_US) for n in range(5, MINUTES + 5)]
    assert series["bins"][str(7 * MINUTE_US)] == {"count": 2, "avg": 6.0, "min": 4, "max": 8}
    assert "timeSeriesStats" not in duration(measure(1))


def test_stats_of_several_nodes_are_added_up() -> None:
    one = measure(10, 20, minutes={})
    other = measure(2000, 13, 30, begins_us=MINUTE_US - 1_000_000, minutes={})
    both = merged([entries_of({"GET": one}), entries_of({"GET": other}), {}])
    assert both["GETrequestCount"]["latestValue"] == 5
    assert both["GETfailureCount"]["accumulatedValue"] == 1
    took = both[TOOK]
    assert (took["accumulatedValue"], took["version"], took["latestValue"]) == (2073, 5, 30)
    assert took["lastUpdateMicros"] == MINUTE_US + 1_000_000
    assert took["logHistogram"]["bins"][:4] == [0, 4, 0, 1]
    assert took["timeSeriesStats"]["bins"] == {
        "0": {"count": 3, "avg": 2030 / 3, "min": 10, "max": 2000},
        str(MINUTE_US): {"count": 2, "avg": 21.5, "min": 13, "max": 30},
    }
    # The order makes no difference, and entries of one node stay unchanged.
    assert merged([entries_of({"GET": other}), entries_of({"GET": one})]) == both
    assert merged([entries_of({"GET": one})]) == entries_of({"GET": one})


def test_merged_series_keep_the_newest_minutes() -> None:
    old, new = measure(1, minutes={}), measure(minutes={})
    for minute in range(MINUTES):
        new.note(1, (minute + 9) * MINUTE_US, has_failed=False)
    both = merged([entries_of({"GET": old}), entries_of({"GET": new})])
    bins = both[TOOK]["timeSeriesStats"]["bins"]
    assert min(map(int, bins)) == 9 * MINUTE_US
    assert len(bins) == MINUTES


def test_stats_of_factories_become_metrics() -> None:
    found = dict(metrics_of({'/a"b': {"PUT": measure(13, 500_000)}}))
    labels = r'{factory="/a\"b",method="PUT"}'
    assert found == {
        f"docstore_factory_requests_total{labels}": 2.0,
        f"docstore_factory_failures_total{labels}": 1.0,
        f"docstore_factory_request_seconds_total{labels}": 0.500013,
    }


def test_whether_it_is_available_is_one_or_nought() -> None:
    for is_available in (True, False):
        entry = availability(7, is_available=is_available)["isAvailable"]
        assert (entry["latestValue"], entry["lastUpdateMicros"]) == (int(is_available), 7)
    assert counted("x", 3, 9)["x"]["version"] == 3
