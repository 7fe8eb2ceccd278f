"""The house rules, as tests: allowed imports, allowed lengths, and names.

Everything is read with `ast`; nothing of the project is imported. Each rule is a function from
one file to complaints, so that test_tidy_can_fail.py can show each of them a bad example: a rule
that cannot fail is not a rule. Lengths are a ratchet: EXCUSED names longer files and functions, and
the reasons, up to a ceiling, and an excuse that is no longer needed is itself a failure.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.source import ROOT, Source, circle_of, names, other_digits, reached, sources

LEVELS = ("info", "warning", "error", "exception", "critical")
"""Methods of a logger for the levels that a node logs by default: all but debug."""
_WITHOUT_VALUES = re.compile(r"[a-zA-Z_,:;'() -]+\Z")
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 50
EXAMPLE_LINES_MAX = 119

# "path" or "path::Class.function" -> (ceiling in lines, why it is better whole).
EXCUSED: dict[str, tuple[int, str]] = {}

# From the top down. A package may import packages of lower floors, its own folders, and no other.
# docs/architecture.md shows the same list. A name that ends in .py is a module of the root.
FLOORS = """
    __main__.py
    cli
    node
    kafka
    http
    maintenance
    reads config.py
    client runtime service_tester.py
    agendas sessions subscriptions
    task_service.py model_service.py
    services pipeline
    streams service.py
    documents testing
    machines
    ownership
    access query storage wire
    model
    errors.py
"""

OF_THE_ROOT = ("__version__", "SERVER")
"""Constants of docstore/__init__.py, which imports nothing."""

# These folders may await, read a clock or do I/O; all others are pure but for PARTS.
SHELLS = ("cli", "client", "http", "kafka", "maintenance", "node", "pipeline", "reads", "runtime")
# Modules of a pure folder that may do the same. Adding to it is a reviewed act.
PARTS = tuple(
    """
    gossip/agent.py gossip/subscribers.py gossip/clock.py gossip/exchange.py gossip/joining.py
    gossip/security/key_file.py
    gossip/security/rotation.py gossip/snapshot.py gossip/subscription.py gossip/transport.py
    gossip/__main__.py docstore/__main__.py docstore/model/durable_files.py docstore/model/tokens.py
    docstore/storage/database.py docstore/storage/disk_files.py docstore/storage/follow_jobs.py
    docstore/storage/journalling.py
    docstore/storage/database_threads.py docstore/storage/journal_thread.py
    docstore/storage/overlaid.py docstore/storage/retry_while_full.py
    docstore/storage/sqlite.py docstore/storage/streams_sqlite.py
    """.split()
)
WORLDLY_MODULES = (*(f"docstore/{shell}/*" for shell in SHELLS), *PARTS)

KAFKA = (
    "docstore/kafka", "tests/docstore/kafka", "tests/kafka", "tests/chaos/kafka", "bench",
    "examples",
)  # fmt: skip
"""Folders that need the extra."""

# Modules that only a shell may import, beside `random` and `uuid`, whose types are harmless.
WORLDLY = frozenset(
    "aiohttp aiosqlite asyncio concurrent importlib logging multiprocessing os secrets select"
    " signal socket sqlalchemy sqlite3 ssl structlog subprocess tempfile threading time"
    " uvloop".split()
)
WORLDLY_BUT = {
    "docstore/storage/described/branches.py": {"sqlalchemy"},  # SQL text, never a connection.
    "docstore/storage/described/documents.py": {"sqlalchemy"},
    "docstore/storage/described/schema.py": {"sqlalchemy"},
    "docstore/storage/described/streams.py": {"sqlalchemy"},
    "docstore/storage/branching.py": {"sqlite3"},
    "docstore/storage/listing.py": {"sqlite3"},
    "docstore/storage/ballast.py": {"os"},  # One file, in the writer's thread.
    "docstore/storage/journal_line.py": {"sqlite3"},  # As reading.py below.
    "docstore/storage/starting.py": {"sqlite3"},
    "docstore/storage/migrations.py": {"sqlite3"},
    "docstore/storage/partition_reading.py": {"sqlite3"},
    "docstore/storage/partition_writing.py": {"sqlite3"},
    "docstore/storage/reading.py": {"sqlite3"},  # The work of a thread that sqlite.py owns.
    "docstore/storage/transactions.py": {"sqlite3"},
    "docstore/storage/writing.py": {"sqlite3", "uuid"},  # As reading.py; a new file gets its id.
}
HARMLESS = {"random": {"Random"}, "uuid": {"UUID"}}
# Calls that read the clock or the operating system's randomness without any import above.
IMPURE_CALLS = frozenset({"datetime.now", "datetime.utcnow", "date.today", "Random()"})

# Commands that a person types and waits for; each import of a node costs tenths of a second there.
COMMANDS = ("docstore/__main__.py", "docstore/config.py", "docstore/model/limits.py",
            "docstore/model/tokens.py", "docstore/cli/*", "docstore/client/*")  # fmt: skip
NODES_OWN = ("docstore/cli/serve.py", "docstore/cli/serve_flags.py", "docstore/cli/force.py",
             "docstore/cli/directory.py", "docstore/cli/restore.py",
             "docstore/cli/access_check.py", "docstore/access/rules.py",
             "docstore/runtime/tls/authority.py")  # fmt: skip
"""Modules that are a node, use its files or make its certificates: commands import them late."""
NODES_PARTS = (
    "docstore.documents.replica docstore.http docstore.maintenance.upkeep docstore.node"
    " docstore.pipeline docstore.query docstore.reads.listings docstore.reads.pages"
    " docstore.reads.scans docstore.runtime.links docstore.storage gossip"
    " aiosqlite cryptography jsonschema pyarrow pydantic pyspark sqlalchemy structlog uvloop"
).split()
AT_EACH_TAB = ("docstore/__main__.py", "docstore/cli/app.py")
"""Modules that run whenever a shell completes a word: they need no connections."""

# The steps of the road share events, effects and documents; serve.py alone calls the one behind it.
STEPS = frozenset("forward handle propose learn decide confirm".split())
# The folders of the replica, and which others each of them may import; replica.py imports all.
ROOMS = {
    "write_path": {"write_path"}, "catchup": {"catchup", "write_path"},
    "leadership": {"leadership", "catchup", "write_path"},
    "membership": {"membership"}, "retention": {"retention"},
}  # fmt: skip
# Modules of the replica that other packages may import, and the HTTP pages: values, not rules.
REPLICA_SEEN = "events effects membership retention.pins parts view".split()
REPLICA_SEEN += ["eventual.branches", "eventual.lineage", "write_path.past"]
REPLICA_SEEN_BY_HTTP = ("events", "effects")

# A name that says nothing invites everything.
BANNED_NAMES = frozenset("utils util helpers helper common base manager data info misc".split())

# Real processes need real time; everything else runs on a clock of its own or polls.
SLEEPERS = (
    "tests/chaos/*", "tests/pipeline/*", "tests/transcripts/*", "tests/whole/*",
    "tests/gossip/test_agent.py", "tests/docstore/watching.py",
)  # fmt: skip
POLL_S_MAX = 0.1


# --- allowed imports -----------------------------------------------------------------------


def gossip_does_not_import_docstore(source: Source) -> Iterator[str]:
    """Membership must be usable, and testable, without a store."""
    if source.is_under("gossip"):
        for line, name in source.imports:
            if names(name, "docstore"):
                yield f"{source.path}:{line} imports {name}"


def only_node_meets_gossip(source: Source) -> Iterator[str]:
    """The view reaches the core as a plain event, so the simulator can forge it."""
    members = "docstore/node/members/membership.py", "docstore/node/members/gossip_keys.py"
    if not source.is_under("docstore") or source.path in members:
        return
    for line, name in source.imports:
        nested = source.path == "docstore/config.py" and names(name, "gossip.config")
        if names(name, "gossip") and not nested:
            yield f"{source.path}:{line} imports {name}"


def pure_modules_stay_pure(source: Source) -> Iterator[str]:
    """Time, chance and I/O are handed in, so that a seed decides everything."""
    if not source.is_under("gossip", "docstore") or source.is_one_of(WORLDLY_MODULES):
        return
    allowed = WORLDLY_BUT.get(source.path, set())
    harmless = {module: types for module, types in HARMLESS.items() if module not in allowed}
    for line, name in source.imports:
        top, *rest = name.split(".")
        if top in WORLDLY - allowed or (top in harmless and rest and rest[0] not in harmless[top]):
            yield f"{source.path}:{line} imports {name}"
    for node in source.nodes:
        if isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            top, *rest = whole.split(".")
            if top in harmless and rest[0] not in harmless[top]:
                yield f"{source.path}:{node.lineno} uses {whole}"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func) + ("()" if not node.args + node.keywords else "")
            if any(re.search(rf"\b{re.escape(call)}", called) for call in IMPURE_CALLS):
                yield f"{source.path}:{node.lineno} calls {called}"


def floor_of(path: str) -> tuple[str, int]:
    """Return the package or root module that holds a file, and its floor from the ground."""
    inside = path.removeprefix("docstore/").partition("/")
    package = inside[0]
    floors = [line.split() for line in FLOORS.strip().splitlines()]
    for floor, packages in enumerate(reversed(floors)):
        if package in packages:
            return package, floor
    return package, len(floors)  # A package without a floor may be imported by none.


def packages_import_lower_floors(source: Source) -> Iterator[str]:
    """A package can be read, and tested, without those above it."""
    if not source.is_under("docstore") or source.path == "docstore/__init__.py":
        return
    package, floor = floor_of(source.path)
    for line, name in source.imports:
        parts = name.split(".")
        if parts[0] != "docstore" or not parts[1:] or parts[1] in OF_THE_ROOT:
            continue
        module = (ROOT / "docstore" / f"{parts[1]}.py").exists()
        other, below = floor_of(f"docstore/{parts[1]}{'.py' if module else '/'}")
        if other != package and below >= floor:
            yield f"{source.path}:{line} imports {name}, which is not on a lower floor"


def the_replica_runs_one_way(source: Source) -> Iterator[str]:
    """Leadership fills logs, logs are filled by the write path, a step of it imports no other."""
    room, _, step = source.path.removeprefix("docstore/documents/").partition("/")
    if room not in ROOMS or not source.is_under("docstore/documents"):
        return
    strange = {"replica"} | ROOMS.keys() - ROOMS[room]
    if room == "write_path" and step.removesuffix(".py") in STEPS:
        strange |= {f"write_path.{other}" for other in STEPS - {step.removesuffix(".py")}}
    for line, name in source.imports:
        if names(name, *(f"docstore.documents.{other}" for other in strange)):
            yield f"{source.path}:{line} imports {name}"


def the_replica_is_seen_by_its_alphabets(source: Source) -> Iterator[str]:
    """Shells read a replica by its view, and write into it by events; HTTP translates, no more."""
    if not source.is_under("docstore") or source.is_under("docstore/documents"):
        return
    machines = ("docstore/runtime/driver.py", "docstore/node/running.py")
    if source.path in (*machines, "docstore/service_tester.py"):
        return  # They run the machine.
    known = REPLICA_SEEN_BY_HTTP if source.is_under("docstore/http") else REPLICA_SEEN
    seen = [f"docstore.documents.{module}" for module in known]
    for line, name in source.imports:
        rule = names(name, "docstore.documents") and not names(name, *seen)
        row = names(name, "docstore.storage") and source.is_under("docstore/http")
        if rule or row:
            yield f"{source.path}:{line} imports {name}"


def machines_see_the_group_by_one_window(source: Source) -> Iterator[str]:
    """Machines are clients of documents: they see the replica by `machines/view.py` alone."""
    if not source.is_under("docstore/streams", "docstore/sessions", "docstore/agendas"):
        return
    for line, name in source.imports:
        if names(name, "docstore.documents"):
            yield f"{source.path}:{line} imports {name}"


def pipeline_is_imported_by_no_package(source: Source) -> Iterator[str]:
    """A node must start without a JVM."""
    if source.is_under("docstore/pipeline", "tests/pipeline", "bench/spark", "examples"):
        return
    for line, name in source.imports:
        if names(name, "docstore.pipeline", "pyspark"):
            yield f"{source.path}:{line} imports {name}"


def kafka_is_in_two_places(source: Source) -> Iterator[str]:
    """Its libraries are optional; a role's conclusions are pure, and every node reads batches."""
    if source.path == "docstore/client/kafka.py" or source.is_under(*KAFKA):
        return
    for line, name in source.imports:
        if names(name, "aiokafka", "confluent_kafka", "crc32c", "kio", "docstore.client.kafka"):
            yield f"{source.path}:{line} imports {name}"


def commands_start_at_once(source: Source) -> Iterator[str]:
    """A person waits for all that a command imports, directly or through other modules."""
    if not source.is_one_of(COMMANDS) or source.is_one_of(NODES_OWN):
        return
    own = [path.removesuffix(".py").replace("/", ".") for path in NODES_OWN]
    for line, name in source.imports:
        at_once = (line, name) in source.imports_at_once
        slow = NODES_PARTS + (["aiohttp"] if at_once and source.is_one_of(AT_EACH_TAB) else [])
        if at_once or not names(name, *own):
            for each in sorted(each for each in reached(name) if names(each, *slow))[:1]:
                yield f"{source.path}:{line} imports {name}, and with it {each}"


def simulator_is_its_own_shell(source: Source) -> Iterator[str]:
    """With a real shell inside the simulator, its seed would no longer decide."""
    if not source.is_under("tests/sim", "docstore/testing/simulation"):
        return
    shells = [
        shell.removesuffix(".py").removesuffix("/*").replace("/", ".") for shell in WORLDLY_MODULES
    ]
    for line, name in source.imports:
        if names(name, *shells):
            yield f"{source.path}:{line} imports {name}"


# --- length, names, words -------------------------------------------------------------------


def functions(source: Source) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function of `source` with its qualified name."""
    todo: list[tuple[str, ast.AST]] = [("", source.tree)]
    while todo:
        prefix, parent = todo.pop()
        for child in ast.iter_child_nodes(parent):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            name = f"{prefix}{child.name}" if named else prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, child
            if not isinstance(child, ast.expr):  # There is none in an expression.
                todo.append((f"{name}." if named else prefix, child))


def too_long(source: Source) -> dict[str, int]:
    """Return the parts of `source` over their limits, by their name in EXCUSED, with lines."""
    lines_max = EXAMPLE_LINES_MAX if source.is_under("examples") else FILE_LINES_MAX
    lengths = {source.path: source.text.count("\n")}
    found = {path: lines for path, lines in lengths.items() if lines > lines_max}
    for name, function in functions(source):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            found[f"{source.path}::{name}"] = lines
    return found


def things_are_short(source: Source) -> Iterator[str]:
    """One idea, one file; one thought, one function."""
    for name, lines in too_long(source).items():
        ceiling, _why = EXCUSED.get(name, (0, ""))
        if lines > ceiling:
            yield f"{name} has {lines} lines" + (f", excused up to {ceiling}" if ceiling else "")


def names_say_something(source: Source) -> Iterator[str]:
    """`utils` is where ideas go to be forgotten."""
    for part in Path(source.path).with_suffix("").parts:
        if part.strip("_") in BANNED_NAMES:
            yield f"{source.path} is called {part}"


def modules_introduce_themselves(source: Source) -> Iterator[str]:
    """The head of a file says what it is and why."""
    private = Path(source.path).stem.startswith("_") and Path(source.path).stem[:2] != "__"
    test = source.is_under("tests")
    if not private and not test and not ast.get_docstring(source.tree):
        yield f"{source.path} has no docstring"


def errors_are_not_swallowed(source: Source) -> Iterator[str]:
    """An error that is dropped in silence hides a failure."""
    for node in source.nodes:
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = ast.unparse(node.type) if node.type else ""
        broad = re.search(r"\b(Exception|BaseException)\b", caught)
        silent = all(
            isinstance(line, ast.Pass | ast.Continue) or is_constant(line) for line in node.body
        )
        if node.type is None or (broad and silent):
            yield f"{source.path}:{node.lineno} swallows whatever comes"


def is_constant(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def digits_are_ascii(source: Source) -> Iterator[str]:
    """A digit of another alphabet is no number: [0-9], and isascii() before isdecimal()."""
    for line in other_digits(source) if source.is_under("docstore", "gossip") else ():
        yield f"{source.path}:{line} takes digits of other alphabets"


def no_test_sleeps(source: Source) -> Iterator[str]:
    """A sleep is a guess about another process's speed; poll with a deadline instead."""
    if not source.is_under("tests") or source.is_one_of(SLEEPERS):
        return
    for line, name in source.imports:
        if names(name, "time.sleep"):
            yield f"{source.path}:{line} imports {name}"
    for node in source.nodes:
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called == "time.sleep":
            yield f"{source.path}:{node.lineno} calls time.sleep"
        if called in {"asyncio.sleep", "sleep"} and node.args:
            delay = node.args[0]
            if not (isinstance(delay, ast.Constant) and delay.value <= POLL_S_MAX):
                yield f"{source.path}:{node.lineno} sleeps {ast.unparse(delay)} s"


Rule = Callable[[Source], Iterator[str]]


def events_have_no_values(source: Source) -> Iterator[str]:
    """A log line has a fixed text, such as "a request is slow", and its values as members."""
    if not source.is_under("docstore", "gossip") or source.is_under("docstore/pipeline"):
        return  # Jobs log through Spark, which prints the text only: values must be in it.
    for node in source.nodes:
        match node:
            case ast.Call(ast.Attribute(ast.Name("log" | "_log"), level), [event, *_]):
                named = [event.body, event.orelse] if isinstance(event, ast.IfExp) else [event]
                texts = [str(each.value) for each in named if isinstance(each, ast.Constant)]
                is_fixed = len(texts) == len(named)
                if level in LEVELS and not (is_fixed and _WITHOUT_VALUES.match(" ".join(texts))):
                    yield f"{source.path}:{node.lineno} logs {ast.unparse(event)}"


RULES: list[Rule] = [
    gossip_does_not_import_docstore,
    only_node_meets_gossip,
    pure_modules_stay_pure,
    packages_import_lower_floors,
    the_replica_runs_one_way,
    the_replica_is_seen_by_its_alphabets,
    machines_see_the_group_by_one_window,
    pipeline_is_imported_by_no_package,
    kafka_is_in_two_places,
    commands_start_at_once,
    simulator_is_its_own_shell,
    things_are_short,
    names_say_something,
    modules_introduce_themselves,
    errors_are_not_swallowed,
    digits_are_ascii,
    no_test_sleeps,
    events_have_no_values,
]


@pytest.fixture(scope="module")
def house() -> list[Source]:
    """Return every file, parsed once for all rules."""
    return sources()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_obeys(house: list[Source], rule: Rule) -> None:
    complaints = [complaint for source in house for complaint in rule(source)]
    assert not complaints, f"{rule.__doc__}\n" + "\n".join(complaints)


def test_no_modules_import_each_other_in_a_circle(house: list[Source]) -> None:
    """None of them could be understood, or tested, without all the others."""
    assert circle_of([file for file in house if file.is_under("docstore", "gossip")]) == []


def test_there_is_a_house(house: list[Source]) -> None:
    folders = {source.path.split("/")[0] for source in house}
    assert {"gossip", "docstore", "tests"} <= folders


def test_excuses_are_still_needed_and_say_why(house: list[Source]) -> None:
    long = {name: lines for source in house for name, lines in too_long(source).items()}
    idle = [name for name in EXCUSED if name not in long]
    assert not idle, f"no longer too long, or gone: take them off EXCUSED: {idle}"
    assert all(len(why) >= 20 for _ceiling, why in EXCUSED.values())


def test_named_files_exist() -> None:
    named = [path for path in (*PARTS, *WORLDLY_BUT) if not path.endswith("*")]
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing, f"named here, but not in the tree: {missing}"


def test_the_page_on_architecture_shows_the_floors() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8").split("```")[1].removeprefix("text")
    shown = [line[:35].split() for line in page.strip("\n").splitlines()]
    assert shown == [line.split() for line in FLOORS.strip().splitlines()]
