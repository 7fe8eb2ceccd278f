"""Settings are refused early, by name; every one of them is explained."""

from __future__ import annotations

import dataclasses
import inspect
import itertools

import pytest

from gossip import Config
from gossip.errors import ConfigError


def test_a_preset_is_the_ground_on_which_other_settings_stand() -> None:
    parsed = Config.parse({"preset": "loopback", "probe_interval_s": 1, "gossip_fanout": 4})
    expected = dataclasses.replace(Config.loopback(), probe_interval_s=1.0, gossip_fanout=4)
    assert parsed == expected
    assert isinstance(parsed.probe_interval_s, float)
    assert Config.parse({}) == Config.lan()
    assert Config.parse({"preset": "wan"}) == Config.wan()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"preset": "moon"}, "preset"),
        ({"probe_interval": 1}, "probe_interval"),
        ({"probe_interval_s": "1"}, "probe_interval_s"),
        ({"gossip_fanout": 1.5}, "gossip_fanout"),
        ({"gossip_fanout": True}, "gossip_fanout"),
        ({"gossip_fanout": 0}, "gossip_fanout"),
        ({"sync_interval_s": -1}, "sync_interval_s"),
        ({"probe_timeout_s": 0.6}, "probe_interval_s"),
        ({"nack_fraction": 1.0}, "nack_fraction"),
        ({"join_retry_max_s": 0.1}, "join_retry_max_s"),
        ({"datagram_bytes_max": 500}, "datagram_bytes_max"),
    ],
)
def test_a_bad_setting_is_refused_by_name(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Config.parse(settings)


def test_every_setting_has_its_reason_beside_it() -> None:
    lines = inspect.getsource(Config).splitlines()
    settings = {each.name for each in dataclasses.fields(Config)}
    for line, after in itertools.pairwise(lines):
        name = line.strip().partition(":")[0]
        if line.startswith("    ") and name in settings and "=" in line:
            settings.discard(name)
            assert after.strip().startswith('"""'), line
    assert not settings
