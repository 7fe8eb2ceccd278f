"""`python -m bench`: measure, print the table, keep the figures.

Exit codes: 0 measured (whether or not the goals are met: the table says), 1 some request of
some row was not answered with 2xx or a cluster broke, 2 something is missing on this machine.
"""

import argparse
import asyncio
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench import machine, report
from bench.cluster import Failed
from bench.docstores import Docstores
from bench.etcd import Etcd
from bench.load import Wrk
from bench.rounds import Plan, Side, measure

LONG = Plan(rounds=3, seconds=8, bulk_documents=60_000, kills=10)
SHORT = Plan(rounds=1, seconds=2, bulk_documents=12_000, kills=2)
MEMBERS = 3


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--short", action="store_true", help="one quick round, two kills")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="per row and round")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--documents", type=int, default=3000, help="read and replaced")
    parser.add_argument("--only", choices=["etcd", "docstore"], help="measure one of the two")
    parser.add_argument("--dir", default="/var/tmp", help="a directory on a real disk")
    parser.add_argument("--name", help="of the file under bench/results/; default: the time")
    return parser.parse_args()


async def run(options: argparse.Namespace) -> bool:
    """Measure as asked; say whether no request failed."""
    # Without this a SIGTERM would end us at once and leave six servers behind.
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    default = SHORT if options.short else LONG
    plan = Plan(
        rounds=options.rounds or default.rounds,
        seconds=options.seconds or default.seconds,
        bulk_documents=default.bulk_documents,
        kills=default.kills if options.kills is None else options.kills,
    )
    wrk = machine.require("wrk", "wrk")
    etcd = "" if options.only == "docstore" else machine.require("etcd", "etcd-server")
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

        sides = [Side("etcd", open_etcd), Side("docstore", open_docstore)]
        await measure(
            [side for side in sides if options.only in {None, side.name}],
            Wrk(wrk, scratch),
            plan,
        )
    now = datetime.now(UTC)
    facts |= {"at": now.isoformat(timespec="minutes"), "plan": vars(plan)}
    fine = report.show(*sides)
    path = report.keep(options.name or f"{now:%Y-%m-%dT%H%M}", facts, sides)
    print(f"kept in {path.relative_to(Path(__file__).parent.parent)}")
    return fine


def main() -> int:
    """Run, and turn what can go wrong into words and an exit code."""
    try:
        return 0 if asyncio.run(run(arguments())) else 1
    except machine.Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped; nothing was kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
