"""Every fault of a token gets the same answer, and no answer or log shows the token."""

import json
from collections.abc import Iterator

import aiohttp
import pytest
import structlog
from structlog.testing import LogCapture

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.runtime import logs
from tests.docstore.access.tokens import KEYS, NOW, bad_tokens, web_token
from tests.docstore.http.access.conftest import Asker, rules_text
from tests.docstore.http.single import SingleNode

TARGETS = ("/tenant1/a", "/tenant1/nothing", "/", "/core/management", "/metrics", "/no/where",
    "/core/bulk", "/core/streams/t/partitions/0/records", "/%zz")  # fmt: skip


@pytest.fixture
def authenticator(monkeypatch: pytest.MonkeyPatch) -> Authenticator:
    monkeypatch.setattr("docstore.http.access.time.time", lambda: NOW)
    return Authenticator(rules_of('audience = "films"\n' + rules_text() + KEYS))


@pytest.mark.parametrize("why", bad_tokens())
async def test_each_fault_is_the_same_401(asker: Asker, why: str) -> None:
    token = bad_tokens()[why]
    if not token.isprintable():
        return
    for target in TARGETS:
        for method in ("GET", "PUT"):
            expected, without, _ = await asker.ask("", method, target)
            status, content, headers = await asker.ask(token, method, target)
            assert (status, content) == (expected, without)
            assert status == 401
            assert json.loads(content)["errorCode"] == "unauthenticated"
            assert headers["WWW-Authenticate"] == 'Bearer realm="docstore"'


async def test_two_tokens_are_401(asker: Asker, base_url: str) -> None:
    both = [("Authorization", "Bearer writer"), ("Authorization", "Bearer writer")]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{base_url}/tenant1/a", headers=both) as answer,
    ):
        assert answer.status == 401


async def test_a_signed_token_is_accepted(asker: Asker) -> None:
    token = web_token()
    assert (await asker.ask(token, "GET", "/tenant1/a"))[0] == 200
    assert (await asker.ask(token, "PUT", "/tenant1/a", b"{}"))[0] == 403


async def test_a_signed_token_cannot_subscribe(asker: Asker) -> None:
    hook = b'{"callback": "https://hooks.example/"}'
    status, content, _ = await asker.ask(web_token(), "POST", "/tenant1/subscriptions", hook)
    assert (status, json.loads(content)["errorCode"]) == (403, "forbidden")


async def test_health_needs_no_token(asker: Asker) -> None:
    for target in ("/health/live", "/health/ready"):
        for name in ("", "wrong", "nobody"):
            assert (await asker.ask(name, "GET", target))[0] == 200
    assert (await asker.ask("", "POST", "/health/live"))[0] == 401


@pytest.mark.parametrize("way", [{}, {"X-Request-Id": "a task"}])
async def test_a_removed_token_is_refused_on_both_paths(
    asker: Asker, authenticator: Authenticator, way: dict[str, str]
) -> None:
    assert (await asker.ask("tenant", "GET", "/tenant1/a", **way))[0] == 200
    authenticator.use(rules_of(rules_text().replace("[users.tenant]", "[users.other]").replace(
        '"/tenant1" = "write"', '"/tenant2" = "write"')))  # fmt: skip
    assert (await asker.ask("tenant", "GET", "/tenant1/a", **way))[0] == 404
    authenticator.use(rules_of(""))
    assert (await asker.ask("tenant", "GET", "/tenant1/a", **way))[0] == 401


CANARY = "canary-8c1f0b"


@pytest.fixture
def lines() -> Iterator[LogCapture]:
    """Log at debug; yield the captured lines."""
    captured = LogCapture()
    before = structlog.get_config()
    logs.set_level("debug")
    structlog.configure(processors=[structlog.processors.format_exc_info, captured])
    yield captured
    logs.set_level("info")
    structlog.configure(**before)


async def test_no_answer_or_log_shows_a_token(
    asker: Asker, node: SingleNode, lines: LogCapture
) -> None:
    answers = []
    for token in ("operator", CANARY, f"{web_token()}{CANARY}"):
        for target in TARGETS:
            answers.append(await asker.ask(token, "GET", target))
            answers.append(await asker.ask(token, "PUT", target, b"["))
    node.fails = True
    answers.append(await asker.ask("operator", "GET", "/tenant1/a"))
    node.fails = False
    answers.append(await asker.ask("operator", "GET", "/metrics"))
    answers.append(await asker.ask("operator", "GET", "/core/management/trace"))
    assert any(each["log_level"] == "debug" for each in lines.entries)
    assert any(each["log_level"] == "error" for each in lines.entries)
    said = repr(answers) + repr(lines.entries)
    assert "Bearer o" not in said
    assert CANARY not in said
    assert web_token()[:20] not in said
