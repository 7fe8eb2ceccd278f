"""Every house rule, with code that it must reject and code that it must accept."""

import pytest

from tests.source import circle_of, sizes
from tests.test_tidy import (
    EXAMPLE_LINES_MAX,
    FILE_LINES_MAX,
    FUNCTION_LINES_MAX,
    RULES,
    Rule,
    Source,
    commands_start_at_once,
    digits_are_ascii,
    errors_are_not_swallowed,
    events_have_no_values,
    gossip_does_not_import_docstore,
    kafka_is_in_two_places,
    machines_see_the_group_by_one_window,
    modules_introduce_themselves,
    names_say_something,
    no_test_sleeps,
    only_node_meets_gossip,
    packages_import_lower_floors,
    pipeline_is_imported_by_no_package,
    pure_modules_stay_pure,
    simulator_is_its_own_shell,
    the_replica_is_seen_by_its_alphabets,
    the_replica_runs_one_way,
    things_are_short,
)

LONG_FUNCTION = "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX
BAD: list[tuple[Rule, str, str]] = [
    (
        gossip_does_not_import_docstore,
        "gossip/swim.py",
        "from docstore.wire.link_messages import Row",
    ),
    (gossip_does_not_import_docstore, "gossip/swim.py", "def f():\n    import docstore"),
    (only_node_meets_gossip, "docstore/runtime/driver.py", "import gossip.agent"),
    (only_node_meets_gossip, "docstore/config.py", "from gossip.member import Member"),
    (pure_modules_stay_pure, "docstore/wire/link_messages.py", "import asyncio"),
    (pure_modules_stay_pure, "gossip/member.py", "from os.path import join"),
    (pure_modules_stay_pure, "docstore/storage/store.py", "import sqlalchemy as sa"),
    (pure_modules_stay_pure, "gossip/member.py", "from random import shuffle"),
    (pure_modules_stay_pure, "gossip/member.py", "import random\nrandom.shuffle([])"),
    (pure_modules_stay_pure, "gossip/member.py", "from random import Random\nr = Random()"),
    (pure_modules_stay_pure, "docstore/model/document.py", "import uuid\nuuid.uuid4()"),
    (
        pure_modules_stay_pure,
        "docstore/model/document.py",
        "import datetime\ndatetime.datetime.now(tz)",
    ),
    (pure_modules_stay_pure, "docstore/services/authored.py", "import importlib"),
    (
        the_replica_runs_one_way,
        "docstore/documents/write_path/learn.py",
        "from ..replica import Replica",
    ),
    (the_replica_runs_one_way, "docstore/documents/write_path/learn.py", "from . import propose"),
    (
        the_replica_runs_one_way,
        "docstore/documents/catchup/pages.py",
        "import docstore.documents.leadership.takeover",
    ),
    (
        the_replica_is_seen_by_its_alphabets,
        "docstore/http/server.py",
        "from docstore.storage.store import Row",
    ),
    (
        the_replica_is_seen_by_its_alphabets,
        "docstore/http/server.py",
        "from docstore.documents.replica import Replica",
    ),
    (
        the_replica_is_seen_by_its_alphabets,
        "docstore/http/server.py",
        "from ..documents import replica",
    ),
    (
        the_replica_is_seen_by_its_alphabets,
        "docstore/maintenance/upkeep/repair.py",
        "from docstore.documents.core import Core",
    ),
    (
        packages_import_lower_floors,
        "docstore/storage/sqlite.py",
        "import docstore.documents.events",
    ),
    (packages_import_lower_floors, "docstore/storage/sqlite.py", "from ..http import server"),
    (
        packages_import_lower_floors,
        "docstore/documents/write_path/handle.py",
        "from docstore.service import Service",
    ),
    (
        packages_import_lower_floors,
        "docstore/documents/eventual/execute.py",
        "from docstore.services.registry import Registry",
    ),
    (
        machines_see_the_group_by_one_window,
        "docstore/streams/core.py",
        "import docstore.documents",
    ),
    (pipeline_is_imported_by_no_package, "docstore/node/node.py", "from docstore import pipeline"),
    (pipeline_is_imported_by_no_package, "docstore/cli/app.py", "import pyspark.sql"),
    (kafka_is_in_two_places, "docstore/client/client.py", "from aiokafka import errors"),
    (
        kafka_is_in_two_places,
        "docstore/client/__init__.py",
        "from docstore.client.kafka import KafkaRole",
    ),
    (commands_start_at_once, "docstore/cli/app.py", "import sqlalchemy"),
    (commands_start_at_once, "docstore/cli/app.py", "from docstore.cli import force"),
    (commands_start_at_once, "docstore/cli/app.py", "from docstore.client import Client"),
    (commands_start_at_once, "docstore/cli/load.py", "def f():\n    import docstore.http.server"),
    (commands_start_at_once, "docstore/cli/load.py", "from docstore.node.status import ready"),
    (
        commands_start_at_once,
        "docstore/cli/status.py",
        "from docstore.runtime.links.rpc import Rpc",
    ),
    (commands_start_at_once, "docstore/client/client.py", "if x:\n    from docstore import node"),
    (commands_start_at_once, "docstore/config.py", "from docstore.http.listener import Listener"),
    (simulator_is_its_own_shell, "tests/sim/cluster.py", "from docstore.http.peers import Peers"),
    (simulator_is_its_own_shell, "tests/sim/cluster.py", "from gossip import agent"),
    (
        simulator_is_its_own_shell,
        "docstore/testing/simulation/x.py",
        "import docstore.client.client",
    ),
    (things_are_short, "docstore/wire/link_messages.py", "x = 1\n" * (FILE_LINES_MAX + 1)),
    (things_are_short, "examples/one.py", "x = 1\n" * (EXAMPLE_LINES_MAX + 1)),
    (things_are_short, "docstore/wire/link_messages.py", LONG_FUNCTION),
    (things_are_short, "docstore/wire/link_messages.py", LONG_FUNCTION.replace("def", "async def")),
    (names_say_something, "docstore/utils.py", ""),
    (events_have_no_values, "docstore/x.py", "log.info('took 3 s')"),
    (events_have_no_values, "docstore/x.py", "log.error(why)"),
    (events_have_no_values, "gossip/x.py", "_log.warning('%s is gone', name)"),
    (events_have_no_values, "docstore/x.py", "log.error('a' if b else c)"),
    (names_say_something, "docstore/common/x.py", ""),
    (modules_introduce_themselves, "docstore/wire/link_messages.py", "# not a docstring\nx = 1"),
    (modules_introduce_themselves, "docstore/documents/__init__.py", ""),
    (errors_are_not_swallowed, "tests/x.py", "try:\n    f()\nexcept:\n    log()"),
    (errors_are_not_swallowed, "gossip/x.py", "try:\n    f()\nexcept Exception:\n    pass"),
    (errors_are_not_swallowed, "gossip/x.py", "try:\n    f()\nexcept (A, Exception):\n    ..."),
    (digits_are_ascii, "docstore/x.py", 'PORT = re.compile(r"\\d+")'),
    (digits_are_ascii, "gossip/x.py", "if port.isdigit(): ..."),
    (digits_are_ascii, "docstore/x.py", "if self.port.isdecimal() and port.isascii(): ..."),
    (no_test_sleeps, "tests/x.py", "import time\ntime.sleep(0)"),
    (no_test_sleeps, "tests/x.py", "from time import sleep"),
    (no_test_sleeps, "tests/x.py", "async def f():\n    await asyncio.sleep(0.5)"),
    (no_test_sleeps, "tests/x.py", "async def f():\n    await asyncio.sleep(delay_s)"),
]
GOOD: list[tuple[Rule, str, str]] = [
    (events_have_no_values, "docstore/x.py", "log.info('a' if b else 'c', n=3)"),
    (events_have_no_values, "docstore/pipeline/x.py", "log.info('%d lost', 3)"),
    (
        machines_see_the_group_by_one_window,
        "docstore/streams/x.py",
        "import docstore.machines.view",
    ),
    (only_node_meets_gossip, "docstore/node/members/membership.py", "from gossip import Agent"),
    (only_node_meets_gossip, "docstore/config.py", "from gossip.config import Config"),
    (pure_modules_stay_pure, "docstore/storage/described/schema.py", "import sqlalchemy as sa"),
    (pure_modules_stay_pure, "gossip/swim.py", "import random\ndef f(rng: random.Random): ..."),
    (pure_modules_stay_pure, "gossip/agent.py", "import asyncio, time"),
    (
        the_replica_is_seen_by_its_alphabets,
        "docstore/http/server.py",
        "from docstore.documents.events import Event",
    ),
    (commands_start_at_once, "docstore/cli/app.py", "def f():\n    from docstore.cli import force"),
    (commands_start_at_once, "docstore/cli/app.py", "def f():\n    import docstore.client"),
    (commands_start_at_once, "docstore/cli/load.py", "from docstore.client import Client"),
    (commands_start_at_once, "docstore/cli/force.py", "from docstore.storage import sqlite"),
    (
        commands_start_at_once,
        "docstore/cli/app.py",
        "if TYPE_CHECKING:\n    import docstore.client\nelse:\n    import typer",
    ),
    (errors_are_not_swallowed, "gossip/x.py", "try:\n    f()\nexcept KeyError:\n    pass"),
    (digits_are_ascii, "docstore/x.py", "if not (a.b.isascii() and a.b.isdecimal()): ..."),
    (no_test_sleeps, "tests/x.py", "async def f():\n    await asyncio.sleep(0)"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_each_rule_can_fail(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text)))


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_each_rule_lets_the_good_pass(rule: Rule, path: str, text: str) -> None:
    assert not list(rule(Source(path, text)))


def test_a_circle_of_imports_is_found_also_for_types_and_in_functions() -> None:
    files = [
        Source("docstore/a/__init__.py", "from docstore.a import b"),
        Source("docstore/a/b.py", "def f():\n    from docstore.c import C"),
        Source("docstore/c.py", "if TYPE_CHECKING:\n    from docstore.a.d import D"),
        Source("docstore/a/d.py", "import docstore.c"),
    ]
    assert sorted(set(circle_of(files))) == ["docstore.a.d", "docstore.c"]
    assert circle_of(files[:3]) == []


def test_the_size_of_a_class_includes_inherited_members() -> None:
    here = Source(
        "docstore/a.py",
        """
class A(B):
    x: int = 0

    def __init__(self) -> None:
        self.x, self.y = 1, 2
        self.z: int = 3

    @property
    def p(self) -> int:
        self.x += 1
        other.q = 4

    async def f(self) -> None: ...
""",
    )
    there = Source(
        "docstore/b.py", "class B(dict):\n    def f(self): ...\n    def g(self): self.w = 1"
    )
    assert sizes([here]) == {"docstore/a.py::A": (3, 3)}
    assert sizes([here, there]) == {"docstore/a.py::A": (4, 4), "docstore/b.py::B": (2, 1)}


def test_each_rule_has_a_bad_example() -> None:
    assert {rule for rule, _path, _text in BAD} == set(RULES)
