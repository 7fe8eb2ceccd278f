"""One frozen configuration of a node, with units and reasons.

`parse` is pure: it takes what the file, the environment and the flags say, the later over the
earlier, and gives a configuration or refuses in one line that names the key. Reading files and
the environment is done where a process starts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from docstore.errors import BadConfig
from docstore.model.address import Address, Ports, ports_of, reachable, split_url
from docstore.model.limits import LOG_LEVELS, Limits, limits_of
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
from docstore.ownership.configuration import NODE_ID, Founder, is_node_id
from docstore.runtime.tls.settings import TLS_KEYS, TlsFiles, plain_ports, tls_files
from docstore.streams.settings import STREAMS_KEYS, streams_config
from docstore.streams.timing import StreamsConfig
from docstore.subscriptions.settings import CALLBACK_KEYS, CallbackSettings, callback_settings

ENVIRONMENT_PREFIX = "DOCSTORE_"
OF_CLIENTS = frozenset({"DOCSTORE_URL", "DOCSTORE_TOKEN", "DOCSTORE_CACERT"})
"""Variables with this prefix that are no settings of a node."""
FOUNDED = ("slots", "points_per_node", "replication_factor", "reads")
"""Settings that hold for ever once a group is founded."""
PRESETS = ("loopback", "lan", "wan")
_HOST_NAME = re.compile(r"(?:\*|[A-Za-z0-9_][A-Za-z0-9._-]{0,252})\Z")


def database_in(data: Path) -> Path:
    """Return the file of the documents in a node's data directory."""
    return data / "docstore.db"


def streams_in(data: Path) -> Path:
    """Return the file of the streams' partitions in a node's data directory."""
    return data / "streams.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that a node can be told."""

    data: Path
    """Directory of the node's disk; made when it is not there."""

    listen_host: str = "127.0.0.1"
    listen_port: int = 8001
    """Where clients are served."""

    peer_host: str = "127.0.0.1"
    peer_port: int = 8002
    """Where other nodes' links arrive: the port after the clients' one."""

    gossip_host: str = "127.0.0.1"
    gossip_port: int = 8003
    """Where membership talks, UDP and TCP: two after the clients' port."""

    advertise: Address
    """Where clients and other nodes reach `listen`."""

    peer_advertise: Address
    """Where other nodes reach `peer`."""

    gossip_advertise: Address
    """Where other nodes reach `gossip`; a name is resolved when the node starts."""

    shared: Address | None = None
    """Where clients are served as well, by each process of this machine that is told the same."""

    node_id: str = ""
    """Stable name of the node; "" takes the one kept on disk, or makes one."""

    zone: str = ""
    """What shares a fate: replicas spread over zones while there are zones left."""

    bootstrap: tuple[Founder, ...] = ()
    """The founders of the group, used on first start only; none: a group of one."""

    join: tuple[str, ...] = ()
    """Members (http(s)://HOST:PORT) to ask to be taken in by, on first start only."""

    replaces: str = ""
    """With `join` or `standby`: the member whose place this node takes."""

    observer: bool = False
    """With `join` or `standby`: hold nothing, only take requests."""

    standby: bool = False
    """Found nothing: wait until an operator adds this node to a group."""

    remove_after_s: float = 0.0
    """A member that is silent for so long is taken out of the group; 0 for never."""

    history_retention_s: float = 0.0
    """Age from which superseded versions are let go of; 0 keeps them for ever.

    At least ten minutes: retries of updates are told apart by the versions that they made.
    """

    slots: int = 1024
    """Parts of the key space, a power of two from 1 to 65,536, fixed at founding."""

    points_per_node: int = 128
    """Points on the ring for each member; 1 is the plain nearest-hash rule, and uneven."""

    replication_factor: int | None = None
    """Replicas of each document; None: every member."""

    reads: str = "confirm"
    """How owners know that a value is current: "confirm" asks the replicas for each read, "lease"
    once a second. Fixed at founding. With leases a take-over waits for up to a second more."""

    heartbeat_interval_s: float = 0.2
    """Between two heartbeats to each member; a sixth of `owner_timeout_s`."""

    owner_timeout_s: float = 1.2
    """Silence after which another member may become owner."""

    repair_interval_s: float = 3600.0
    """Every row of this node is verified, and its slots compared, once in so long; 0 for never."""

    journal_mb: int = 64
    """Megabytes of disk for the journal, in files of 8; twice as much is kept free beside it."""

    segments_mb: int = 1024
    """Megabytes of disk for slots at rest as columns, which make scans fast; 0 for none."""

    gossip_preset: str = "loopback"
    """Timing of membership: loopback, lan or wan."""

    gossip_key_file: str = ""
    """Keys that encrypt membership, in base64, one a line, the first seals; "" for none."""

    access_file: str = ""
    """Who may ask for what, in TOML; "": everybody may for everything."""

    anonymous_versions: bool = False
    """Versions of documents do not say who made them, where `access_file` says who everybody is."""

    token_file: str = ""
    """The token that this node shows when it asks others over HTTP; "" for none."""

    tls: TlsFiles = field(default_factory=TlsFiles)
    """Certificates, and who is believed; the settings begin with `tls_` and `peer_tls_`."""

    insecure: bool = False
    """Allow plain text beyond loopback."""

    services: tuple[str, ...] = ()
    """Classes that make the states of their factories' documents, `package.module:Class`."""

    allowed_hosts: tuple[str, ...] = ()
    """Names beside its own by which requests may call this node; "*" for any."""

    log: str = "auto"
    """Logs as text or json; auto: text on a terminal."""

    log_level: str = "info"
    """Lines of this level and above are logged: debug, info, warning or error."""

    callbacks: CallbackSettings = field(default_factory=CallbackSettings)
    """Whom it may call for subscriptions; the settings begin with `callback_`."""

    founded: frozenset[str] = frozenset()
    """The settings of `FOUNDED` that are given: a start fails if one differs from the group's."""

    limits: Limits = field(default_factory=Limits)

    streams: StreamsConfig = field(default_factory=StreamsConfig)
    """Of the partitions of streams; the settings begin with `streams_`."""

    @property
    def host_names(self) -> set[str]:
        """Return by which names clients may call this node, beside that of its machine."""
        founder = [each.host for each in self.bootstrap if each.id == self.node_id]
        shared = [self.shared.host] if self.shared else []
        return {self.listen_host, self.advertise.host, *shared, *founder, *self.allowed_hosts}

    @property
    def url(self) -> str:
        """Where clients reach this node."""
        return self.advertise.url(self.tls.scheme)

    def public(self) -> dict[str, Any]:
        """Return what the management page shows: where it is reached, and limits; no secrets.

        Other nodes read the addresses there, see `node/members/lookup.py`.
        """
        return {
            "addresses": {
                "http": self.url,
                "peer": str(self.peer_advertise),
                "gossip": str(self.gossip_advertise),
            },
            "zone": self.zone,
            "limits": {each.name: getattr(self.limits, each.name) for each in fields(self.limits)},
        }


ZONE_BYTES_MAX = 128
"""Each member gets it in a datagram, beside two addresses."""
CENTURY_S = 36_600 * 86_400.0
RETENTION_S_MIN = 600.0

KEYS = (
    "data", "listen", "peer", "gossip", "advertise", "peer_advertise", "gossip_advertise",
    "shared", "node_id", "zone", "bootstrap", "join", "replaces", "observer", "standby",
    "remove_after_s", "history_retention_s", "slots",
    "points_per_node", "replication_factor", "reads", "heartbeat_interval_s", "owner_timeout_s",
    "repair_interval_s", "journal_mb", "segments_mb",
    "gossip_preset", "gossip_key_file", "access_file", "anonymous_versions", "token_file",
    *TLS_KEYS, "insecure",
    "service", "allowed_hosts", *CALLBACK_KEYS, "log", "log_level",
    *(each.name for each in fields(Limits)),
    *STREAMS_KEYS,
)  # fmt: skip
"""Every key of the file; also a flag, and in capitals after DOCSTORE_ an environment variable."""


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layers as one, the later over the earlier; None in a layer says nothing."""
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
            raise BadConfig(f"{name}: there is no such setting")
        found[key] = value
    return found


def parse(settings: Mapping[str, Any]) -> Config:
    """Return the configuration that the settings describe. Raises BadConfig in one line."""
    if unknown := sorted(set(settings) - set(KEYS)):
        raise BadConfig(f"{unknown[0]}: there is no such setting")
    if not settings.get("data"):
        raise BadConfig("data: a directory is needed")
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
        services=tuple(listed(settings.get("service", ""))),
        allowed_hosts=_host_names(settings.get("allowed_hosts", "")),
        callbacks=callback_settings(settings),
        founded=frozenset(key for key in FOUNDED if settings.get(key) not in (None, "")),
        log=choice(settings.get("log", "auto"), "log", ("auto", "text", "json")),
        log_level=choice(settings.get("log_level", "info"), "log_level", LOG_LEVELS),
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
        "gossip_host": ports.gossip.host,
        "gossip_port": ports.gossip.port,
        "advertise": ports.advertise,
        "peer_advertise": ports.peer_advertise,
        "gossip_advertise": ports.gossip_advertise,
        "shared": ports.shared,
    }


def _check_together(config: Config) -> None:
    """Refuse settings that are well formed and do not fit each other."""
    if 0 < config.history_retention_s < RETENTION_S_MIN:
        raise BadConfig("history_retention_s: at least 600, or 0 for ever")
    if config.owner_timeout_s < 3 * config.heartbeat_interval_s:
        raise BadConfig("owner_timeout_s: at least three heartbeat intervals")
    if config.bootstrap and config.node_id not in {each.id for each in config.bootstrap}:
        raise BadConfig("node_id: must be one of the ids in bootstrap")
    if config.bootstrap and (config.join or config.standby):
        raise BadConfig("bootstrap: a node founds a group or joins one, not both")
    comes_in = "replaces" if config.replaces else "observer" if config.observer else ""
    if comes_in and not config.join and not config.standby:
        raise BadConfig(f"{comes_in}: says how a node comes into a group: join says which")


def _founders(value: object, scheme: str) -> tuple[Founder, ...]:
    founders = []
    for founder in listed_some(value, "bootstrap"):
        name, _, url = founder.partition("=")
        try:
            said, address = split_url(url)
        except ValueError as error:
            raise BadConfig(f"bootstrap: {error}; say ID={scheme}://HOST:PORT") from None
        reachable(address, "bootstrap")
        if said != scheme:
            why = "with tls_cert_file" if scheme == "https" else "without tls_cert_file"
            raise BadConfig(f"bootstrap: {founder!r}: {why} nodes are at {scheme}://")
        if not is_node_id(name):
            raise BadConfig(f"bootstrap: {name[:80]!r} is no id of a node: {NODE_ID}")
        founders.append(Founder(name, *address))
    if len({each.id for each in founders}) < len(founders):
        raise BadConfig("bootstrap: an id is there twice")
    return tuple(founders)


def _host_names(value: object) -> tuple[str, ...]:
    names = tuple(listed(value))
    for name in names:
        if not _HOST_NAME.match(name):
            raise BadConfig(f"allowed_hosts: {name[:80]!r} is not a host's name without its port")
    return names


def _urls(value: object, scheme: str) -> tuple[str, ...]:
    urls = tuple(url.rstrip("/") for url in listed_some(value, "join"))
    for url in urls:
        try:
            said, _ = split_url(url)
        except ValueError as error:
            raise BadConfig(f"join: {error}") from None
        if scheme == "https" and said != scheme:  # It would never answer, and hears our token.
            raise BadConfig(f"join: {url!r}: with tls_cert_file nodes are at https://")
    return urls


def _node_id(settings: Mapping[str, Any], key: str) -> str:
    name = text(settings, key, may_be_empty=False)
    if name and not is_node_id(name):
        raise BadConfig(f"{key}: {name[:80]!r} is no id of a node: {NODE_ID}")
    return name


def _slots(value: object) -> int:
    slots = integer(value, "slots", 1, 65_536)
    if slots & (slots - 1):
        raise BadConfig(f"slots: {slots} is not a power of two")
    return slots


def _factor(value: object) -> int | None:
    if value in (None, "", "all"):
        return None
    return integer(value, "replication_factor", 1, 255)


def _preset(settings: Mapping[str, Any], default: str) -> str:
    return choice(settings.get("gossip_preset", default), "gossip_preset", PRESETS)
