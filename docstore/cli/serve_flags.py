"""The flags of `docstore serve`, one for each setting; `docs/operations.md` describes them."""

import argparse
import re
from collections.abc import Mapping
from typing import NoReturn

from docstore.config import KEYS
from docstore.errors import BadConfig
from docstore.model.words import nearest

SWITCHES = ("anonymous_versions", "development", "insecure", "observer", "reload", "standby")
LISTS = ("join", "service", "allowed_hosts", "allowed_origins")
"""Flags that may be repeated, or given once with commas."""

HELP: Mapping[str, str] = {
    "data": "directory for the node's data",
    "listen": "HOST:PORT for clients (127.0.0.1:8001)",
    "peer": "HOST:PORT for other nodes (the port after listen's)",
    "gossip": "HOST:PORT for membership (two ports after listen's)",
    "advertise": "HOST:PORT where clients and nodes reach listen (as bound)",
    "peer_advertise": "HOST:PORT where other nodes reach peer",
    "gossip_advertise": "HOST:PORT where other nodes reach gossip",
    "shared": "HOST:PORT that all processes of this machine serve together",
    "kafka_listen": "HOST:PORT for clients of Kafka, with docstore[kafka] (none)",
    "kafka_advertise": "HOST:PORT where they reach kafka_listen (as bound)",
    "node_id": "stable name (kept in the data directory)",
    "zone": "failure domain; replicas and voters spread over zones",
    "bootstrap": "founders, ID=http(s)://HOST:PORT,...; first start only (a group of one)",
    "join": "http(s)://HOST:PORT of members that add this node; first start only",
    "replaces": "with --join: the member that this node replaces",
    "observer": "with --join: store nothing, only accept requests",
    "standby": "wait until an operator adds this node to a group",
    "remove_after_s": "seconds of silence after which a member is removed (0: never)",
    "history_retention_s": "seconds to keep superseded versions (0: for ever)",
    "slots": "parts of the key space, a power of two; fixed at founding (1024)",
    "points_per_node": "points of a node on the ring; fixed at founding (128)",
    "replication_factor": "replicas of a document; fixed at founding (all)",
    "reads": "how an owner verifies its ownership: confirm or lease; fixed at founding (confirm)",
    "heartbeat_interval_s": "seconds between heartbeats (0.2)",
    "owner_timeout_s": "seconds of silence after which an owner is replaced (1.2)",
    "repair_interval_s": "seconds in which every row is verified once (3600; 0: never)",
    "journal_mb": "MB of disk for the journal, 16 to 1024 (64)",
    "segments_mb": "MB of disk for idle slots in columns (1024; 0: none)",
    "gossip_preset": "timing of membership: loopback, lan or wan",
    "gossip_key_file": "keys that encrypt membership, base64, one per line",
    "access_file": "users and permissions, TOML (all callers may do everything)",
    "anonymous_versions": "do not store the user who made a version",
    "token_file": "the token that this node sends to other nodes",
    "tls_cert_file": "certificate of this node, for clients (https) and other nodes",
    "tls_key_file": "key of tls_cert_file",
    "tls_ca_file": "CAs of the nodes, for mutual TLS between them",
    "tls_revoked_file": "node ids and serial numbers to reject, one per line",
    "peer_tls_cert_file": "another certificate for other nodes (tls_cert_file)",
    "peer_tls_key_file": "key of peer_tls_cert_file",
    "insecure": "allow plain text beyond loopback",
    "service": "package.module:Class, see docstore.service; may be repeated",
    "reload": "load the classes again when one of their files changes, for development",
    "development": "send clients the traceback when a handler fails",
    "allowed_hosts": "more host names of this node, separated by commas; * for any",
    "allowed_origins": "origins of web pages that may use the node (CORS), separated by commas",
    "callback_hosts": "hosts that subscriptions may call, with commas: *.example.com (none)",
    "callback_networks": "private networks that subscriptions may call: 10.0.0.0/8",
    "callback_key_file": "keys that encrypt subscriptions' secrets, base64, one per line",
    "callback_retry_s": "seconds to wait after a receiver's first failure (5)",
    "log": "text or json (auto: text on a terminal)",
    "log_level": "debug, info, warning or error (info)",
    "slow_request_s": "seconds from which a request is logged as slow (1; 0: never)",
    "audit_file": "file of the audit log, JSON lines; - for standard output (none)",
    "otlp_endpoint": "http(s)://HOST:PORT of a collector for OpenTelemetry spans (none)",
    "body_bytes_max": "bytes of a body, and of a document (1048576)",
    "header_line_bytes_max": "bytes of a header (8190)",
    "head_bytes_max": "bytes of all headers (32768)",
    "headers_max": "headers of a request (100)",
    "connections_max": "connections of clients (10000)",
    "connections_per_address_max": "connections from one address (1000)",
    "keepalive_timeout_s": "seconds of silence between two requests (75)",
    "first_request_timeout_s": "seconds from the connection to its first headers (10)",
    "body_timeout_s": "seconds for a body to arrive (30)",
    "send_timeout_s": "seconds in which a client reads nothing of its answer (60)",
    "streams_fail_back_s": "seconds in sync before a preferred leader leads (60; 0: never)",
    "streams_gather_s": "seconds that an election waits for replicas (0.2)",
    "streams_confirm_s": "seconds that a candidate has to become leader (0.5)",
    "streams_tail_mb": "MB of memory for the newest batches (64)",
    "streams_retention_check_s": "seconds between two checks for expired records (60)",
}
"""Key of the settings -> help text of its flag, with the default in parentheses."""


class _FlagParser(argparse.ArgumentParser):
    """A parser that raises BadConfig, as other faults of settings do."""

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"unrecognized arguments: (--[^ =]+)", message)
        flags = [flag for action in self._actions for flag in action.option_strings]
        near = nearest(unknown[1], flags) if unknown else ""
        raise BadConfig(f"{message}; {near}see docstore serve --help")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the flags; a flag that is not given is None."""
    flags = _FlagParser(
        prog="docstore serve",
        usage="%(prog)s --data DIR [OPTION...]",
        description=(
            "Run one node. Every flag is also a key of the --config file, and an environment"
            " variable: --log-level is log_level there, and DOCSTORE_LOG_LEVEL."
        ),
    )
    flags.add_argument("--config", metavar="FILE", help="a TOML file")
    flags.add_argument(
        "--processes", type=int, metavar="N",
        help="run N nodes, one process each: ids NODE_ID-0 to N-1, ports three apart",
    )  # fmt: skip
    flags.add_argument(
        "--json", dest="log", action="store_const", const="json", help="the same as --log json"
    )
    for key in KEYS:
        flag = "--" + key.replace("_", "-")
        if key in SWITCHES:
            flags.add_argument(flag, action="store_const", const=True, help=HELP[key])
        else:
            action = "append" if key in LISTS else "store"
            flags.add_argument(flag, dest=key, action=action, metavar="X", help=HELP[key])
    return flags
