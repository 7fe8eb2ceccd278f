"""`python -m bench`: measure, print the table, keep the figures.

Exit codes: 0 measured (whether or not the goals are met: the table says), 1 some request of
some row was not answered with 2xx or a cluster broke, 2 something is missing on this machine.
"""

import argparse
import sys
from datetime import UTC, datetime

from bench import alone, machine
from bench.docstores import ANY, Docstores
from bench.etcd import Etcd
from bench.load import Wrk
from bench.report import DOCSTORE, THROUGH_ANY, Report, Row
from bench.rounds import Plan, Side, measure

LONG = Plan(rounds=3, seconds=8, bulk_documents=60_000, kills=10)
SHORT = Plan(rounds=1, seconds=2, bulk_documents=12_000, kills=2)
MEMBERS = 3


ROWS = [
    Row("put_1", "PUT, 1 client", ratio=0.8),
    Row("put_1", "   p50", "p50_ms", "ms"),
    Row("put_1" + ANY, THROUGH_ANY),
    Row("put_16", "PUT, 16 clients", ratio=0.85, aim="1x"),
    Row("put_16", "   p99", "p99_ms", "ms"),
    Row("put_16" + ANY, THROUGH_ANY),
    Row("put_64", "PUT, 64 clients", ratio=0.85, aim="1x"),
    Row("put_64", "   p99", "p99_ms", "ms"),
    Row("put_64" + ANY, THROUGH_ANY),
    Row("get_1", "GET, linearizable, 1 client"),
    Row("get_1" + ANY, THROUGH_ANY),
    Row("get_64", "GET, linearizable, 64 clients", ratio=2.5),
    Row("get_64", "   p99", "p99_ms", "ms"),
    Row("get_64" + ANY, THROUGH_ANY),
    Row("bulk", "bulk load (etcd: transactions of 100)", unit="docs/s", ratio=0.65, aim="0.85x"),
    Row("bulk", "   per core-second of servers", "rate_per_core_s", "docs"),
    Row("failover_waits", "kill -9 to next write, p50", "s", "s", share=0.5),
    Row("failover_waits", "   p99", "s", "s", share=0.99, most=2.0, spared=0),
    Row("failover_waits", "   max", "s", "s", share=1.0),
    Row("startup", "start to ready, three nodes", "s", "s"),
    Row("rss_idle", "memory per node, idle", "mib", "MiB"),
    Row("rss_loaded", "   after the load", "mib", "MiB"),
]


def arguments() -> argparse.Namespace:
    parser = alone.parser("bench", __doc__, f"{datetime.now(UTC):%Y-%m-%dT%H%M}")
    parser.add_argument("--short", action="store_true", help="one quick round, two kills")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="per row and round")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--documents", type=int, default=3000, help="read and replaced")
    parser.add_argument("--only", choices=["etcd", "docstore"], help="measure one of the two")
    return parser.parse_args()


async def run(options: argparse.Namespace) -> bool:
    """Measure as asked; say whether no request failed."""
    default = SHORT if options.short else LONG
    plan = Plan(
        rounds=options.rounds or default.rounds,
        seconds=options.seconds or default.seconds,
        bulk_documents=default.bulk_documents,
        kills=default.kills if options.kills is None else options.kills,
    )
    wrk = machine.require("wrk", "wrk")
    etcd = "" if options.only == "docstore" else machine.require("etcd", "etcd-server")
    report = Report("docstore beside etcd", "etcd", ROWS)
    with machine.scratch(options.dir) as scratch:
        facts = await machine.facts(options.dir)
        facts["etcd"] = await machine.version(r"etcd Version: (\S+)", etcd, "--version")
        facts["wrk"] = await machine.version(r"wrk (\S+)", wrk, "-v")

        def open_etcd(turn: int) -> Etcd:
            ports = machine.free_ports(MEMBERS)
            return Etcd(etcd, ports, scratch / f"etcd{turn}", options.documents)

        def open_docstore(turn: int) -> Docstores:
            ports = machine.free_ports(MEMBERS)
            return Docstores(ports, scratch / f"docstore{turn}", options.documents, turn)

        sides = [Side("etcd", open_etcd, report), Side(DOCSTORE, open_docstore, report)]
        await measure(
            [side for side in sides if options.only in {None, side.name}], Wrk(wrk, scratch), plan
        )
    now = datetime.now(UTC)
    report.show()
    report.keep(options.name, facts | {"at": now.isoformat(timespec="minutes"), "plan": vars(plan)})
    return not report.has_errors()


if __name__ == "__main__":
    asked = arguments()
    sys.exit(alone.exit_code(lambda: run(asked)))
