"""Classes of services that settings name: checks, calls and declarations."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from structlog.testing import capture_logs

from docstore.errors import BadConfig, Conflict, Unavailable
from docstore.maintenance.announcing import NOT_YET
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.model.service import METHODS, Refusal, State
from docstore.node import handler_calls
from docstore.node.authors import load
from docstore.node.handler_calls import HandlerCalls
from docstore.node.registration import ServiceRegistration
from docstore.service import Refused, Service
from docstore.services.authored import AuthoredService, MissingService, declaration_of
from docstore.services.registry import FACTORIES, Registry
from tests.docstore.http.single import SingleNode

MODULE = """
from docstore.service import Service

class Good(Service):
    path = "/good"

class Same(Service):
    path = "/good"

class Reserved(Service):
    path = "/core/examples"

class Suffix(Service):
    path = "/a/stats"

class NoPath(Service):
    kind = "x"

class Escaped(Service):
    path = "/a%20b"

class Options(Service):
    path = "/a"
    options = ("PERSISTENCE",)

class Methods(Service):
    path = "/a"
    methods = ("GET", "PUT")

class Schema(Service):
    path = "/a"
    schema = {"type": "nothing"}

class Revision(Service):
    path = "/a"
    revision = "two"

class Waiting(Service):
    path = "/a"
    async def on_patch(self, state, body, request):
        return state

class Needing(Service):
    path = "/a"
    def __init__(self, what):
        pass

class NoService:
    path = "/a"

number = 1
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "authored_here.py").write_text(MODULE)
    (tmp_path / "authored_badly.py").write_text("import sys\nsys.exit('no')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("authored_here", "authored_badly"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["nowhere:Good"], "nowhere:Good: importing nowhere raised ModuleNotFoundError"),
        (["authored_badly:Good"], "SystemExit: no"),
        (["authored_here:Bad"], "no subclass of docstore.service.Service called Bad"),
        (["authored_here"], "must be such as package.module:Class"),
        (["authored_here:"], "must be such as package.module:Class"),
        ([":Good"], "must be such as package.module:Class"),
        (["authored_here:Service"], "no subclass"),
        (["authored_here:NoService"], "no subclass"),
        (["authored_here:number"], "no subclass"),
        (["authored_here:Reserved"], "/core is reserved"),
        (["authored_here:Suffix"], "a factory's path must not contain"),
        (["authored_here:NoPath"], "path is missing"),
        (["authored_here:Escaped"], "path must be written without escapes: '/a b'"),
        (["authored_here:Options"], "`options` must include REPLICATION"),
        (["authored_here:Methods"], "methods must be among POST, PUT, PATCH, DELETE"),
        (["authored_here:Schema"], "schema"),
        (["authored_here:Revision"], "revision must be a whole number"),
        (["authored_here:Waiting"], "on_patch must not be async"),
        (["authored_here:Needing"], "TypeError"),
        (["authored_here:Good", "authored_here:Same"], "have the same path /good"),
        (["authored_here:Good", "authored_here:Good"], "have the same path /good"),
    ],
)
def test_a_service_that_cannot_be_is_refused_in_one_line(
    modules: Path, names: list[str], why: str
) -> None:
    with pytest.raises(BadConfig, match=why) as refused:
        load(names)
    assert str(refused.value).startswith("service: ")
    assert "\n" not in str(refused.value)


def test_a_service_is_found_where_the_node_is_started(modules: Path) -> None:
    [service] = load(["authored_here:Good"])
    assert service.path == "/good"


# How handlers are called


def test_a_handler_that_fails_is_logged_with_its_service_and_refused() -> None:
    calls = HandlerCalls()

    def exits() -> NoReturn:
        sys.exit("enough")

    with capture_logs() as lines, pytest.raises(Refusal) as refused:
        calls("/a", exits)
    assert (refused.value.status, refused.value.code) == (500, "internal")
    assert "enough" not in refused.value.detail
    [line] = lines
    assert (line["log_level"], line["service"], line["exc_info"]) == ("error", "/a", True)
    assert calls.metrics()['docstore_service_failures_total{path="/a"}'] == 1


def test_a_refusal_does_not_count_as_a_failure() -> None:
    calls = HandlerCalls()

    def refuses() -> NoReturn:
        raise Refused(409, "no")

    with capture_logs() as lines, pytest.raises(Refused):
        calls("/a", refuses)
    assert not lines
    assert calls.metrics()['docstore_service_failures_total{path="/a"}'] == 0
    assert calls.metrics()['docstore_service_calls_total{path="/a"}'] == 1


def test_a_handler_that_takes_long_is_logged_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, clock = HandlerCalls(), iter([1.0, 1.019, 2.0, 2.021])
    monkeypatch.setattr(handler_calls, "perf_counter", lambda: next(clock))
    with capture_logs() as lines:
        assert calls("/a", lambda: 5) == 5
        assert not lines
        assert calls("/a", lambda: 6) == 6
    [line] = lines
    assert (line["log_level"], line["service"], line["ms"]) == ("warning", "/a", 21)
    counted = calls.metrics()
    assert counted['docstore_service_slow_total{path="/a"}'] == 1
    assert counted['docstore_service_calls_total{path="/a"}'] == 2
    assert counted['docstore_service_seconds_total{path="/a"}'] == pytest.approx(0.04)


# How services are declared


class Counters(Service):
    path = "/counters"
    kind = "example:Counter"

    def on_delete(self, state: State, request: Any) -> None:
        raise Refused(403, "counters stay")


class Better(Counters):
    revision = 2
    methods = ("POST", "PATCH")


class Strangers(Better):
    kind = "example:Stranger"


async def nothing(declaration: State, timeout_s: float) -> None:
    """Let any level be declared."""


async def in_force(declaration: Row, timeout_s: float) -> None:
    """Say that any declaration is in force."""


async def offered(
    node: SingleNode, *services: Service, submit: Any = None, announce: Any = in_force,
    check_declarable: Any = nothing,
) -> ServiceRegistration:  # fmt: skip
    registration = ServiceRegistration(services, submit or node.submit, announce, check_declarable)
    registration.start()
    for _ in range(10):
        await asyncio.sleep(0)
    return registration


def declared(node: SingleNode) -> State:
    found: State = json.load(node.histories[f"{FACTORIES}/counters"][-1].state)
    return found


async def test_a_service_is_declared_like_any_factory_and_found() -> None:
    node = SingleNode(Registry([Counters()]))
    registration = ServiceRegistration([Counters()], node.submit, in_force, nothing)
    assert registration.why_not() == "service /counters: not declared yet"
    registration = await offered(node, Counters())
    assert registration.why_not() == ""
    assert declared(node) == declaration_of(Counters())
    service = node.registry.service_at("/counters")
    assert isinstance(service, AuthoredService)
    assert service.options.kind == "example:Counter"
    await offered(node, Counters())
    assert len(node.histories[f"{FACTORIES}/counters"]) == 1, "it was declared once"


async def test_the_greatest_revision_is_in_force() -> None:
    node = SingleNode(Registry([Counters()]))
    await offered(node, Counters())
    await offered(node, Better())
    await offered(node, Counters())
    assert declared(node) == declaration_of(Better())
    service = node.registry.service_at("/counters")
    assert isinstance(service, AuthoredService), "it has the class, of an older revision"
    assert service.options.methods == ("POST", "PATCH")


async def test_a_class_that_differs_under_one_revision_is_logged() -> None:
    class Other(Counters):
        methods = METHODS[:1]

    node = SingleNode(Registry([Counters()]))
    await offered(node, Counters())
    with capture_logs() as lines:
        assert (await offered(node, Other())).why_not() == ""
    assert [line["service"] for line in lines] == ["/counters"]
    assert declared(node) == declaration_of(Counters())


async def test_a_service_of_another_kind_is_not_declared_in_its_place() -> None:
    node = SingleNode(Registry([Strangers()]))
    await offered(node, Counters())
    assert isinstance(node.registry.service_at("/counters"), MissingService)
    registration = await offered(node, Strangers())
    assert "with documents of kind 'example:Counter'" in registration.why_not()
    assert declared(node) == declaration_of(Counters())
    await registration.stop()


async def test_a_service_that_cannot_be_declared_keeps_no_other_one_waiting() -> None:
    class Others(Counters):
        path = "/others"

    node = SingleNode(Registry([Strangers(), Others()]))
    await offered(node, Counters())
    registration = await offered(node, Strangers(), Others())
    await _until(lambda: node.registry.service_at("/others") is not None)
    assert registration.why_not().startswith("service /counters: ")
    assert "/others" not in registration.why_not()
    await node.submit(Operation(verb="DELETE", link=f"{FACTORIES}/counters"), 1)
    await _until(lambda: not registration.why_not())
    assert declared(node) == declaration_of(Strangers())


async def test_a_factory_without_a_service_is_not_taken_over() -> None:
    node = SingleNode(Registry([Counters()]))
    link, plain = f"{FACTORIES}/counters", json.dump({"path": "/counters"})
    await node.submit(Operation(verb="POST", link=link, body=plain), 1)
    registration = await offered(node, Counters())
    assert "declared without a service" in registration.why_not()
    await registration.stop()
    await node.submit(Operation(verb="DELETE", link=link), 1)
    assert (await offered(node, Counters())).why_not() == ""
    assert isinstance(node.registry.service_at("/counters"), AuthoredService)


async def test_a_level_that_documents_do_not_have_is_not_declared() -> None:
    async def refuses(declaration: State, timeout_s: float) -> NoReturn:
        raise Conflict("there are documents of another level")

    node = SingleNode(Registry([Counters()]))
    registration = await offered(node, Counters(), check_declarable=refuses)
    assert "another level" in registration.why_not()
    assert node.registry.service_at("/counters") is None
    await registration.stop()


async def test_a_declaration_is_retried_until_it_is_stored() -> None:
    node = SingleNode(Registry([Counters()]))
    answers = [Answer(503, "no-owner", "not now"), None, Answer(504, "undecided", "perhaps")]

    def submit(operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        said = answers.pop(0) if answers else None
        if said is None:
            return node.submit(operation, timeout_s)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        future.set_result(said)
        return future

    registration = await offered(node, Counters(), submit=submit)
    assert registration.why_not() == "service /counters: not now"
    await _until(lambda: not registration.why_not())
    assert not answers
    assert declared(node) == declaration_of(Counters())


async def test_a_stored_declaration_is_announced_until_it_is_in_force() -> None:
    node = SingleNode(Registry([Counters()]))
    await offered(node, Counters())
    announced: list[Row] = []
    reasons: list[str] = []

    async def submit(operation: Operation, timeout_s: float) -> Answer:
        answer = await node.submit(operation, timeout_s)
        return answer if operation.is_read else NOT_YET

    async def announce(declaration: Row, timeout_s: float) -> None:
        announced.append(declaration)
        reasons.append(registration.why_not().removeprefix("service /counters: "))
        if len(announced) < 3:
            raise Unavailable("an owner does not answer")

    registration = await offered(node, Better(), submit=submit, announce=announce)
    assert declared(node) == declaration_of(Better()), "the change is stored"
    await _until(lambda: not registration.why_not())
    assert reasons == [NOT_YET.detail, *["an owner does not answer"] * 2]
    stored = node.histories[f"{FACTORIES}/counters"]
    assert announced == [stored[-1]] * 3
    assert len(stored) == 2, "it is not written again"


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.02)


def test_a_node_without_the_class_has_a_missing_service() -> None:
    with_class, without = SingleNode(Registry([Counters()])), Registry()
    asyncio.run(_declare(with_class))
    without.publish(with_class.histories[f"{FACTORIES}/counters"][-1])
    service = without.service_at("/counters")
    assert isinstance(service, MissingService)
    assert service.options.kind == "example:Counter"


async def _declare(node: SingleNode) -> None:
    await offered(node, Counters())
