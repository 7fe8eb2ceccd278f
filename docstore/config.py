"""The frozen configuration of a node, with units and reasons.

`parse` is pure: it takes merged settings, and returns a configuration or raises one line that names
the key. The process reads files and environment variables when it starts.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from docstore.errors import BadConfig
from docstore.model.address import (
    Address,
    KafkaAddresses,
    Ports,
    ports_of,
    reachable,
    split_url,
)
from docstore.model.limits import Limits, limits_of
from docstore.model.settings import (
    WEEK_S,
    choice,
    flag,
    integer,
    listed,
    listed_some,
    seconds,
    text,
)
from docstore.model.slots import SLOTS_MAX
from docstore.model.words import nearest
from docstore.ownership.configuration import NODE_ID, Founder, is_node_id
from docstore.runtime.log_settings import LOG_KEYS, LogSettings, log_settings
from docstore.runtime.tls.settings import TLS_KEYS, TlsFiles, plain_ports, tls_files
from docstore.services.settings import SERVICE_KEYS, ServiceSettings, service_settings
from docstore.streams.settings import STREAMS_KEYS, streams_config
from docstore.streams.timing import StreamsConfig
from docstore.subscriptions.settings import CALLBACK_KEYS, CallbackSettings, callback_settings

ENVIRONMENT_PREFIX = "DOCSTORE_"
OF_CLIENTS = frozenset({"DOCSTORE_URL", "DOCSTORE_TOKEN", "DOCSTORE_CACERT"})
"""Variables with this prefix that are settings of clients, not of nodes."""
FOUNDED = ("slots", "points_per_node", "replication_factor", "reads")
"""Settings that cannot change after a group is founded."""
GOSSIP = Address("127.0.0.1", 8003)
PRESETS = ("loopback", "lan", "wan")
_HOST_NAME = re.compile(r"(?:\*|[A-Za-z0-9_][A-Za-z0-9._-]{0,252})\Z")
_ORIGIN = re.compile(
    r"https?://(?:[a-z0-9_][a-z0-9._-]{0,252}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?\Z"
)


def database_in(data: Path) -> Path:
    """Return the path of the database of documents."""
    return data / "docstore.db"


def streams_in(data: Path) -> Path:
    """Return the path of the database of streams."""
    return data / "streams.db"


class Allowed(NamedTuple):
    """Host names of the node beside its own, "*" for any; origins of web pages that may use it."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of a node."""

    data: Path
    """Data directory; created if it does not exist."""

    listen_host: str = "127.0.0.1"
    listen_port: int = 8001
    """Port for clients."""

    peer_host: str = "127.0.0.1"
    peer_port: int = 8002
    """Port for links from other nodes; by default the one after `listen_port`."""

    gossip: Address = GOSSIP
    """Address for membership, UDP and TCP; by default at two ports after `listen_port`."""

    advertise: Address
    """Address by which clients and other nodes reach `listen`."""

    peer_advertise: Address
    """Address by which other nodes reach `peer`."""

    gossip_advertise: Address
    """Address by which other nodes reach `gossip`; a name is resolved at the start."""

    shared: Address | None = None
    """Second address for clients, served by all processes of this machine that have this value."""

    kafka: KafkaAddresses | None = None
    """Addresses of the listener for Kafka clients; the settings begin with `kafka_`."""

    node_id: str = ""
    """Stable name of the node; "" for the name on disk, or a new one."""

    zone: str = ""
    """Failure domain: replicas spread over as many zones as possible."""

    bootstrap: tuple[Founder, ...] = ()
    """Founders of the group, used on first start only; without any, a group of one."""

    join: tuple[str, ...] = ()
    """URLs of members that add this node to their group, used on first start only."""

    replaces: str = ""
    """With `join` or `standby`: the member that this node replaces."""

    observer: bool = False
    """With `join` or `standby`: store nothing, only accept requests."""

    standby: bool = False
    """Whether to wait until an operator adds this node to a group."""

    remove_after_s: float = 0.0
    """Silence after which a member is removed from the group; 0 for never."""

    history_retention_s: float = 0.0
    """Age at which superseded versions are compacted; 0 keeps them for ever.

    At least ten minutes, because retries of updates are recognised by the versions that they made.
    """

    slots: int = 1024
    """Number of parts of the key space, a power of two from 1 to 65,536, fixed at founding."""

    points_per_node: int = 128
    """Points on the ring for each member; 1 distributes slots unevenly."""

    replication_factor: int | None = None
    """Replicas of each document; None: every member."""

    reads: str = "confirm"
    """Verification by owners that a value is current: "confirm" asks the replicas for each read,
    "lease" once a second. Fixed at founding. With leases a take-over takes up to a second more."""

    heartbeat_interval_s: float = 0.2
    """Interval of heartbeats to each member; a sixth of `owner_timeout_s`."""

    owner_timeout_s: float = 1.2
    """Silence after which another member may become owner."""

    repair_interval_s: float = 3600.0
    """Interval in which all rows are verified and all slots are compared once; 0 for never."""

    journal_mb: int = 64
    """Megabytes of disk for the journal, in files of 8; twice as much is kept free beside it."""

    segments_mb: int = 1024
    """Megabytes of disk for column files of idle slots, which make scans fast; 0 for none."""

    gossip_preset: str = "loopback"
    """Timing of membership: loopback, lan or wan."""

    gossip_key_file: str = ""
    """Keys that encrypt membership, in base64, one per line; the first encrypts; "" for none."""

    access_file: str = ""
    """Users and their permissions, in TOML; "": all callers may do everything."""

    anonymous_versions: bool = False
    """Whether versions omit the user who made them."""

    token_file: str = ""
    """File with the token that this node sends to other nodes over HTTP; "" for none."""

    tls: TlsFiles = field(default_factory=TlsFiles)
    """Certificates and trusted CAs; the settings begin with `tls_` and `peer_tls_`."""

    insecure: bool = False
    """Whether to allow plain text beyond loopback."""

    services: ServiceSettings = field(default_factory=ServiceSettings)
    """Classes that make the states of documents."""

    allowed: Allowed = field(default_factory=Allowed)
    """Names of the node, and web pages; the settings begin with `allowed_`."""

    logging: LogSettings = field(default_factory=LogSettings)
    """Settings of the log."""

    callbacks: CallbackSettings = field(default_factory=CallbackSettings)
    """Hosts that subscriptions may call; the settings begin with `callback_`."""

    founded: frozenset[str] = frozenset()
    """Settings of `FOUNDED` that were given; a start fails if one differs from the group's."""

    limits: Limits = field(default_factory=Limits)

    streams: StreamsConfig = field(default_factory=StreamsConfig)
    """Timing of streams; the settings begin with `streams_`."""

    @property
    def host_names(self) -> set[str]:
        """Return the host names that clients may use for this node, besides the machine's own."""
        founder = [each.host for each in self.bootstrap if each.id == self.node_id]
        shared = [self.shared.host] if self.shared else []
        return {self.listen_host, self.advertise.host, *shared, *founder, *self.allowed.hosts}

    @property
    def url(self) -> str:
        """Return the URL of this node for clients."""
        return self.advertise.url(self.tls.scheme)

    def public(self) -> dict[str, Any]:
        """Return the addresses, zone and limits for the management page; no secrets.

        Other nodes read the addresses there (`node/members/lookup.py`).
        """
        return {
            "addresses": {
                "http": self.url,
                "peer": str(self.peer_advertise),
                "gossip": str(self.gossip_advertise),
                **({"kafka": str(self.kafka.advertise)} if self.kafka else {}),
            },
            "zone": self.zone,
            "limits": {each.name: getattr(self.limits, each.name) for each in fields(self.limits)},
        }


ZONE_BYTES_MAX = 128
"""Greatest size of a zone's name, which a member sends in one datagram with two addresses."""
CENTURY_S = 36_600 * 86_400.0
RETENTION_S_MIN = 600.0

KEYS = (
    "data", "listen", "peer", "gossip", "advertise", "peer_advertise", "gossip_advertise",
    "shared", "kafka_listen", "kafka_advertise", "node_id", "zone", "bootstrap", "join", "replaces",
    "observer", "standby",
    "remove_after_s", "history_retention_s", "slots",
    "points_per_node", "replication_factor", "reads", "heartbeat_interval_s", "owner_timeout_s",
    "repair_interval_s", "journal_mb", "segments_mb",
    "gossip_preset", "gossip_key_file", "access_file", "anonymous_versions", "token_file",
    *TLS_KEYS, "insecure",
    *SERVICE_KEYS, "allowed_hosts", "allowed_origins", *CALLBACK_KEYS, *LOG_KEYS,
    *(each.name for each in fields(Limits)),
    *STREAMS_KEYS,
)  # fmt: skip
"""Keys of the file; each is also a flag, and in capitals after DOCSTORE_ a variable."""


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the layers, later ones over earlier ones; None in a layer is ignored."""
    result: dict[str, Any] = {}
    for layer in layers:
        result.update({key: value for key, value in layer.items() if value is not None})
    return result


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of DOCSTORE_... variables. Raises BadConfig on an unknown one."""
    found = {}
    for name, value in environment.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name in OF_CLIENTS:
            continue
        key = name.removeprefix(ENVIRONMENT_PREFIX).lower()
        if key not in KEYS:
            known = [f"{ENVIRONMENT_PREFIX}{each.upper()}" for each in KEYS]
            raise _unknown(name, known)
        found[key] = value
    return found


def _unknown(name: str, known: Iterable[str]) -> BadConfig:
    near = nearest(name, known)
    return BadConfig(f"{name}: unknown setting; {near}docstore serve --help lists them")


def parse(settings: Mapping[str, Any]) -> Config:
    """Return the configuration that the settings describe. Raises BadConfig in one line."""
    if unknown := sorted(set(settings) - set(KEYS)):
        raise _unknown(unknown[0], KEYS)
    if not settings.get("data"):
        raise BadConfig("data: required: give the directory for the node's data")
    tls = tls_files(settings)
    founders = _founders(settings.get("bootstrap"), tls.scheme)
    own = next((each.address for each in founders if each.id == settings.get("node_id")), None)
    insecure = flag(settings.get("insecure", False), "insecure")
    ports = ports_of(settings, own, {} if insecure else plain_ports(settings, tls))
    config = Config(
        data=Path(text(settings, "data")),
        **_addresses(ports),
        node_id=_node_id(settings, "node_id"),
        zone=text(settings, "zone", most=ZONE_BYTES_MAX),
        bootstrap=founders,
        join=_urls(settings.get("join"), tls.scheme),
        replaces=_node_id(settings, "replaces"),
        observer=flag(settings.get("observer", False), "observer"),
        standby=flag(settings.get("standby", False), "standby"),
        remove_after_s=seconds(settings, "remove_after_s", 0.0, least=0, most=WEEK_S),
        history_retention_s=seconds(settings, "history_retention_s", 0.0, least=0, most=CENTURY_S),
        slots=_slots(settings.get("slots", 1024)),
        points_per_node=integer(settings.get("points_per_node", 128), "points_per_node", 1, 4096),
        replication_factor=_factor(settings.get("replication_factor")),
        reads=choice(settings.get("reads", "confirm"), "reads", ("confirm", "lease")),
        heartbeat_interval_s=seconds(settings, "heartbeat_interval_s", 0.2),
        owner_timeout_s=seconds(settings, "owner_timeout_s", 1.2),
        repair_interval_s=seconds(settings, "repair_interval_s", 3600.0, least=0, most=WEEK_S),
        journal_mb=integer(settings.get("journal_mb", 64), "journal_mb", 16, 1024),
        segments_mb=integer(settings.get("segments_mb", 1024), "segments_mb", 0, 1 << 24),
        gossip_preset=_preset(settings, "loopback" if ports.are_local else "lan"),
        gossip_key_file=text(settings, "gossip_key_file"),
        access_file=text(settings, "access_file"),
        anonymous_versions=flag(settings.get("anonymous_versions", False), "anonymous_versions"),
        token_file=text(settings, "token_file"),
        tls=tls,
        insecure=insecure,
        services=service_settings(settings),
        allowed=_allowed(settings),
        callbacks=callback_settings(settings),
        founded=frozenset(key for key in FOUNDED if settings.get(key) not in (None, "")),
        logging=log_settings(settings),
        limits=limits_of(settings),
        streams=streams_config(settings),
    )
    _check_together(config)
    return config


def _addresses(ports: Ports) -> dict[str, Any]:
    return {
        "listen_host": ports.listen.host,
        "listen_port": ports.listen.port,
        "peer_host": ports.peer.host,
        "peer_port": ports.peer.port,
        "gossip": ports.gossip,
        "advertise": ports.advertise,
        "peer_advertise": ports.peer_advertise,
        "gossip_advertise": ports.gossip_advertise,
        "shared": ports.shared,
        "kafka": ports.kafka,
    }


def _check_together(config: Config) -> None:
    """Reject settings that are well formed but contradict each other."""
    if 0 < config.history_retention_s < RETENTION_S_MIN:
        got = f"{config.history_retention_s:g}"
        raise BadConfig(f"history_retention_s: must be at least 600, or 0 for ever; got {got}")
    if config.owner_timeout_s < 3 * config.heartbeat_interval_s:
        raise BadConfig(
            f"owner_timeout_s: must be at least three times heartbeat_interval_s, that is"
            f" {3 * config.heartbeat_interval_s:g}; got {config.owner_timeout_s:g}"
        )
    founders = [each.id for each in config.bootstrap]
    if founders and config.node_id not in founders:
        raise BadConfig(f"node_id: must be one of the ids in bootstrap: {', '.join(founders)}")
    if founders and (config.join or config.standby):
        raise BadConfig("bootstrap: a node founds a group or joins one, not both: drop one of them")
    joining = "replaces" if config.replaces else "observer" if config.observer else ""
    if joining and not config.join and not config.standby:
        raise BadConfig(f"{joining}: applies to a node that joins a group: add join or standby")


def _founders(value: object, scheme: str) -> tuple[Founder, ...]:
    founders = []
    for founder in listed_some(value, "bootstrap"):
        name, _, url = founder.partition("=")
        try:
            said, address = split_url(url)
        except ValueError as error:
            raise BadConfig(f"bootstrap: {error}; use ID={scheme}://HOST:PORT") from None
        reachable(address, "bootstrap")
        if said != scheme:
            why = "with tls_cert_file" if scheme == "https" else "without tls_cert_file"
            raise BadConfig(f"bootstrap: {founder!r}: {why} the URL must begin with {scheme}://")
        if not is_node_id(name):
            raise BadConfig(f"bootstrap: {name[:80]!r} is not a node id: {NODE_ID}")
        founders.append(Founder(name, *address))
    if len({each.id for each in founders}) < len(founders):
        raise BadConfig("bootstrap: two founders have the same id; each needs its own")
    return tuple(founders)


def _allowed(settings: Mapping[str, object]) -> Allowed:
    hosts = tuple(listed(settings.get("allowed_hosts", "")))
    for name in hosts:
        if not _HOST_NAME.match(name):
            raise BadConfig(
                f"allowed_hosts: {name[:80]!r} is not a host name; give names without ports, or *"
            )
    origins = tuple(each.lower() for each in listed(settings.get("allowed_origins", "")))
    for origin in origins:
        if not _ORIGIN.match(origin):
            raise BadConfig(
                f"allowed_origins: {origin[:80]!r} is not an origin; give scheme, host and port of"
                " pages, such as https://shop.example or http://localhost:3000"
            )
    return Allowed(hosts, origins)


def _urls(value: object, scheme: str) -> tuple[str, ...]:
    urls = tuple(url.rstrip("/") for url in listed_some(value, "join"))
    for url in urls:
        try:
            said, _ = split_url(url)
        except ValueError as error:
            raise BadConfig(f"join: {error}") from None
        if scheme == "https" and said != scheme:  # Plain text would expose this node's token.
            raise BadConfig(f"join: {url!r}: with tls_cert_file the URL must begin with https://")
    return urls


def _node_id(settings: Mapping[str, Any], key: str) -> str:
    name = text(settings, key, may_be_empty=False)
    if name and not is_node_id(name):
        raise BadConfig(f"{key}: {name[:80]!r} is not a node id: {NODE_ID}")
    return name


def _slots(value: object) -> int:
    slots = integer(value, "slots", 1, SLOTS_MAX)
    if slots & (slots - 1):
        raise BadConfig(f"slots: must be a power of two, such as 1024; got {slots}")
    return slots


def _factor(value: object) -> int | None:
    if value in (None, "", "all"):
        return None
    return integer(value, "replication_factor", 1, 255)


def _preset(settings: Mapping[str, Any], default: str) -> str:
    return choice(settings.get("gossip_preset", default), "gossip_preset", PRESETS)
