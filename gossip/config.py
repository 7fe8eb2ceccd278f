"""Every number of the protocol in one frozen place, with its unit and its reason.

Three presets: `lan` is like the defaults of other implementations for local networks, `wan` is for
links with a round trip above 100 ms, `loopback` is for tests and demonstrations on one machine.
`Config.parse` is pure: its caller reads files and the environment.

Left out: timeouts adapted to measured round trips, since there is no evidence for them yet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from gossip.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one agent. All members of a cluster should share them."""

    probe_interval_s: float = 1.0
    """Time between two probes by one member, stretched by ill health.

    A crash is first seen after e/(e-1) = 1.58 intervals on average whatever the size of the
    cluster (SWIM section 3.1). At least twice `probe_timeout_s`: the indirect round must fit.
    """

    probe_timeout_s: float = 0.5
    """Wait for a direct ack before asking others. About the 99th percentile of a round trip."""

    indirect_probes_count: int = 3
    """Members asked to probe in our stead. SWIM's k: at 5 % loss, three make false alarms
    thirty times rarer than one (SWIM section 3.1)."""

    nack_fraction: float = 0.8
    """Part of the relay's time after which it sends a nack, having heard nothing (Lifeguard, IV-A).

    Must be below 1, or the nack comes too late to show that our own link works.
    """

    health_max: int = 8
    """Upper bound S of the local health score: intervals grow at most (S+1)-fold (Lifeguard).
    Zero turns the score off: the first of Lifeguard's three parts."""

    suspicion_mult: int = 4
    """Shortest suspicion in probe intervals, times log10 of the members: Lifeguard's alpha."""

    suspicion_max_mult: int = 6
    """Longest suspicion as a multiple of the shortest: Lifeguard's beta. One turns the shrinking
    of suspicions off: the second of Lifeguard's parts."""

    buddy_rule: bool = True
    """Whether probes and acks tell a suspect of the suspicion: Lifeguard's third part."""

    confirmations_max: int = 3
    """Independent accusers beyond the first that bring a suspicion to its shortest: its K."""

    refused_grace_s: float = 0.5
    """Suspicion left to a member whose own host refused our TCP connection.

    A refusal is not silence: a running kernel says that no process listens on that port. Zero
    means dead at once. A live member that is wrongly accused (say, by a firewall that rejects
    TCP) has this long to refute, so it should cover a few round trips and gossip intervals.
    """

    retransmit_mult: int = 4
    """How often a member sends one rumour is this number times ceil(log10(n+1))."""

    retransmit_min: int = 6
    """Least number of sends of one rumour.

    Four sends in a group below ten are too few where packets get lost.
    """

    gossip_interval_s: float = 0.2
    """Time between two rounds of gossip. Rounds take place only while there is a rumour."""

    gossip_fanout: int = 3
    """Members that get rumours in one round."""

    gossip_burst: int = 4
    """Datagrams for one member in one round while rumours wait that were never sent, as in a
    mass join. Bounds the rate to fanout * burst * datagram / interval: 84 kB/s on `lan`."""

    dead_gossip_s: float = 30.0
    """How long the accusation is sent to a dead member itself, so that it can refute at once."""

    forget_after_s: float = 86_400.0
    """How long members that died or left are remembered. Until then a stale rumour cannot revive
    them, and after a partition of the network we look for them."""

    sync_interval_s: float = 30.0
    """Time between two comparisons of tables with a random peer, stretched by
    ceil(log2(n) - 5) + 1 above 32 members. Repairs what gossip missed."""

    digest_pause_s: float = 5.0
    """Shortest time between two comparisons that a differing sum on a ping or ack sets off."""

    reconnect_interval_s: float = 30.0
    """Time between two attempts to reach a member that we hold dead. Heals partitions."""

    seed_interval_s: float = 60.0
    """Time between two looks at a seed that we do not know as alive. Heals what
    `reconnect_interval_s` cannot: sides that have forgotten each other."""

    join_retry_min_s: float = 0.5
    """First wait after a seed did not answer; doubles from there, with jitter."""

    join_retry_max_s: float = 30.0
    """Longest wait between two attempts to join through a seed."""

    leave_timeout_s: float = 5.0
    """Longest time spent on telling the others that we leave."""

    stream_timeout_s: float = 10.0
    """Longest time of one exchange over TCP, connecting included."""

    stream_header_timeout_s: float = 1.0
    """Longest silence of a client that has connected and holds a slot."""

    streams_max: int = 128
    """Incoming streams served at once. More are closed unanswered; they retry."""

    streams_per_host_max: int = 16
    """Incoming streams from one address served at once, so that no client starves the others."""

    frame_bytes_max: int = 8 * 1024 * 1024
    """Longest message on a stream: room for 16 384 members with 400 bytes of metadata each."""

    datagram_bytes_max: int = 1400
    """Longest datagram, so that it travels unfragmented. 1232 for the minimum MTU of IPv6."""

    encrypt_outgoing: bool = True
    """With a keyring: whether we seal what we send.

    To encrypt a running group, first give all members the keyring with this and `verify_incoming`
    false, then set this, then `verify_incoming`.
    """

    verify_incoming: bool = True
    """With a keyring: whether packets that are not sealed are dropped."""

    datagram_bytes_per_s: int = 256 * 1024
    """Datagrams sent per second at most, with a burst of one second. More are dropped and counted:
    in a storm a member must not make it worse."""

    members_max: int = 16_384
    """Most names in the table. Further names are ignored and counted, as a guard against floods."""

    newcomers_max: int = 32
    """Most unknown names accepted from one datagram, as a guard against floods."""

    stall_min_s: float = 0.1
    """Lateness of our timers from which we count as paused.

    Above this and above half of `probe_timeout_s`, running suspicions of others are extended by the
    lateness.
    """

    def __post_init__(self) -> None:
        """Refuse values that contradict each other. Raises ConfigError naming the setting."""
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, bool):
                continue
            if value < 0 or (value == 0 and setting.name not in _MAY_BE_ZERO):
                raise ConfigError(f"{setting.name} must be positive; got {value}")
        if self.probe_interval_s < 2 * self.probe_timeout_s:
            raise ConfigError("probe_interval_s must be at least twice probe_timeout_s")
        if self.nack_fraction >= 1:
            raise ConfigError(f"nack_fraction must be below 1; got {self.nack_fraction}")
        if self.join_retry_max_s < self.join_retry_min_s:
            raise ConfigError("join_retry_max_s must be at least join_retry_min_s")
        if not 960 <= self.datagram_bytes_max <= 9_000:
            raise ConfigError(
                f"datagram_bytes_max must be from 960 to 9000; got {self.datagram_bytes_max}"
            )

    @classmethod
    def lan(cls) -> Config:
        """Return settings for one data centre: all agree on a crash in about ten seconds."""
        return cls()

    @classmethod
    def wan(cls) -> Config:
        """Return settings for members far apart: times are five times those of `lan`.

        A middlebox may refuse a connection here, so `refused_grace_s` is long.
        """
        return cls(
            probe_interval_s=5.0,
            probe_timeout_s=2.5,
            suspicion_mult=6,
            refused_grace_s=5.0,
            gossip_interval_s=0.5,
            gossip_fanout=4,
            dead_gossip_s=60.0,
            sync_interval_s=60.0,
            digest_pause_s=20.0,
            reconnect_interval_s=60.0,
            seed_interval_s=120.0,
        )

    @classmethod
    def loopback(cls) -> Config:
        """Return settings for members on one machine: a killed process is dead within 1 s.

        There is one kernel and no middlebox, so a refusal is proof and needs no grace. The first
        look at n members takes at most 2n-1 intervals, then one `probe_timeout_s`. Ill
        health stretches both threefold at most, since here it is shared by all.
        """
        return cls(
            probe_interval_s=0.2,
            probe_timeout_s=0.1,
            health_max=2,
            suspicion_mult=3,
            suspicion_max_mult=3,
            refused_grace_s=0.0,
            gossip_interval_s=0.05,
            dead_gossip_s=6.0,
            sync_interval_s=3.0,
            digest_pause_s=0.5,
            reconnect_interval_s=3.0,
            seed_interval_s=6.0,
            join_retry_min_s=0.1,
            join_retry_max_s=1.0,
            leave_timeout_s=1.0,
            streams_per_host_max=128,
        )

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Config:
        """Return the preset named by `preset` (default `lan`) with the other keys on top.

        Raises ConfigError on an unknown preset or key, a wrong type, or a value out of bounds.
        """
        name = settings.get("preset", "lan")
        presets = {"lan": cls.lan, "wan": cls.wan, "loopback": cls.loopback}
        if not isinstance(name, str) or name not in presets:
            raise ConfigError(f"preset must be one of {', '.join(presets)}; got {name!r}")
        preset = presets[name]()
        kinds = {field.name: type(getattr(preset, field.name)) for field in dataclasses.fields(cls)}
        changes: dict[str, int | float | bool] = {}
        for key, value in settings.items():
            if key == "preset":
                continue
            if key not in kinds:
                raise ConfigError(f"unknown setting {key}: remove it, or correct its name")
            changes[key] = _number(key, value, kinds[key])
        return dataclasses.replace(preset, **changes)  # type: ignore[arg-type]  # checked above


_MAY_BE_ZERO = frozenset(
    {"refused_grace_s", "confirmations_max", "indirect_probes_count", "health_max"}
)


def _number(key: str, value: object, kind: type[int | float | bool]) -> int | float | bool:
    if kind is bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{key} must be true or false; got {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{key} must be a number; got {value!r}")
    if kind is int and not isinstance(value, int):
        raise ConfigError(f"{key} must be a whole number; got {value!r}")
    return kind(value)
