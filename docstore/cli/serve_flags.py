"""The flags of `docstore serve`: a flag for each setting, and what it means in a few words.

`docs/operations.md` says it at length.
"""

import argparse
from collections.abc import Mapping
from typing import NoReturn

from docstore.config import KEYS
from docstore.errors import BadConfig

SWITCHES = ("anonymous_versions", "insecure", "observer", "standby")
LISTS = ("join", "service", "allowed_hosts")
"""What may be said several times, or once with commas."""

HELP: Mapping[str, str] = {
    "data": "directory of the node's disk",
    "listen": "HOST:PORT for clients (127.0.0.1:8001)",
    "peer": "HOST:PORT for other nodes (the port after listen's)",
    "gossip": "HOST:PORT for membership (two ports after listen's)",
    "advertise": "HOST:PORT where clients and nodes reach listen (as bound)",
    "peer_advertise": "HOST:PORT where other nodes reach peer",
    "gossip_advertise": "HOST:PORT where other nodes reach gossip",
    "shared": "HOST:PORT served together with other processes of this machine",
    "node_id": "stable name (kept in the data directory)",
    "zone": "what shares a fate; replicas and voters spread over zones",
    "bootstrap": "founders, ID=http(s)://HOST:PORT,...; first start only (alone)",
    "join": "http(s)://HOST:PORT of members to be taken in by; first start only",
    "replaces": "with --join: the member whose place it takes",
    "observer": "with --join: holds nothing, takes requests",
    "standby": "waits until an operator adds it to a group",
    "remove_after_s": "a member silent for so long is taken out (0: never)",
    "history_retention_s": "superseded versions older than this go (0: never)",
    "slots": "parts of the key space, a power of two; fixed at founding (1024)",
    "points_per_node": "points of a node on the ring; fixed at founding (128)",
    "replication_factor": "replicas of a document; fixed at founding (all)",
    "reads": "confirm or lease: how an owner knows that it still is; fixed at founding (confirm)",
    "heartbeat_interval_s": "between heartbeats (0.2)",
    "owner_timeout_s": "silence after which an owner is replaced (1.2)",
    "repair_interval_s": "every row is verified once in so long (3600; 0: never)",
    "journal_mb": "disk for the journal, 16 to 1024 (64)",
    "segments_mb": "disk for slots at rest as columns (1024; 0: none)",
    "gossip_preset": "timing of membership: loopback, lan or wan",
    "gossip_key_file": "keys that encrypt membership, base64, one a line",
    "access_file": "who may ask for what, TOML (none: everybody for everything)",
    "anonymous_versions": "versions do not say who made them",
    "token_file": "the token that it shows to other nodes",
    "tls_cert_file": "certificate of this node: https for clients, and shown to other nodes",
    "tls_key_file": "its key",
    "tls_ca_file": "CAs of the nodes: their links are mutual TLS",
    "tls_revoked_file": "nodes and serial numbers that are let in no more, one a line",
    "peer_tls_cert_file": "another certificate for other nodes (tls_cert_file)",
    "peer_tls_key_file": "its key",
    "insecure": "plain text beyond loopback",
    "service": "package.module:Class, see docstore.service; may be there several times",
    "allowed_hosts": "more names by which clients may call it, with commas; * for any",
    "callback_hosts": "hosts that subscriptions may call, with commas: *.example.com (nobody)",
    "callback_networks": "networks that they may be in beside public ones: 10.0.0.0/8",
    "callback_key_file": "keys that seal subscriptions' secrets, base64, one a line",
    "callback_retry_s": "pause after a receiver's first failure (5)",
    "log": "text or json (auto: text on a terminal)",
    "log_level": "debug, info, warning or error (info)",
    "body_bytes_max": "bytes of a body, and of a document (1048576)",
    "header_line_bytes_max": "bytes of a header (8190)",
    "head_bytes_max": "bytes of all headers (32768)",
    "headers_max": "headers of a request (100)",
    "connections_max": "connections of clients (10000)",
    "connections_per_address_max": "of one address (1000)",
    "keepalive_timeout_s": "silence between two requests (75)",
    "first_request_timeout_s": "from the connection to its first headers (10)",
    "body_timeout_s": "for a body to arrive (30)",
    "send_timeout_s": "in which a client takes nothing of its answer (60)",
    "streams_fail_back_s": "in step for so long, a preferred leader leads again (60; 0: never)",
    "streams_gather_s": "an election waits so long for replicas (0.2)",
    "streams_confirm_s": "a candidate has so long to lead (0.5)",
    "streams_tail_mb": "memory for the newest batches (64)",
    "streams_retention_check_s": "between two looks for records to let go of (60)",
}
"""Key of the settings -> what `--help` says, its default in brackets."""


class _FlagParser(argparse.ArgumentParser):
    """Says what is wrong in one line, as of any other setting."""

    def error(self, message: str) -> NoReturn:
        raise BadConfig(f"{message}; see docstore serve --help")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the flags; what is not said is None."""
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
        help="N nodes, a process each: ids NODE_ID-0 to N-1, ports three apart",
    )  # fmt: skip
    for key in KEYS:
        flag = "--" + key.replace("_", "-")
        if key in SWITCHES:
            flags.add_argument(flag, action="store_const", const=True, help=HELP[key])
        else:
            action = "append" if key in LISTS else "store"
            flags.add_argument(flag, dest=key, action=action, metavar="X", help=HELP[key])
    return flags
