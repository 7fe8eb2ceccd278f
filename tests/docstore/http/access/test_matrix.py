"""A table, written by hand, of the roles that may use each method of each path."""

import itertools
import json
from http import HTTPStatus

import pytest

from tests.docstore.http.access.conftest import DOCUMENTS, FACTORIES, GRANTS, Asker
from tests.docstore.http.conftest import Raw

LEVELS = {"read": 1, "write": 2, "admin": 3}
READ, WRITE, ADMIN, ANY, OPEN = 1, 2, 3, 0, -1
READERS, WRITERS = ("GET", "HEAD", "OPTIONS"), ("PUT", "PATCH", "DELETE", "POST")
ALL = READERS + WRITERS

# Path -> the path that needs a grant; the level to read, and to change.
PATHS: dict[str, tuple[str, int, int]] = {
    "/tenant1/a": ("/tenant1/a", READ, WRITE),
    "/tenant1/b": ("/tenant1/b", READ, WRITE),
    "/tenant1/a/versions": ("/tenant1/a/versions", READ, WRITE),
    "/tenant1/a/explain": ("/tenant1/a/explain", READ, WRITE),
    "/tenant1/a/synchronization": ("/tenant1/a", READ, ADMIN),
    "/tenant1/config": ("/tenant1", READ, ADMIN),
    "/tenant1/deep/a": ("/tenant1/deep/a", READ, WRITE),
    "/tenant1x/a": ("/tenant1x/a", READ, WRITE),
    "/tenant2/a": ("/tenant2/a", READ, WRITE),
    "/%74enant1/a": ("/tenant1/a", READ, WRITE),
    "/tenant1/%61": ("/tenant1/a", READ, WRITE),
    "/%74enant2/a": ("/tenant2/a", READ, WRITE),
    "/tenant1%78/a": ("/tenant1x/a", READ, WRITE),
    "/core/factories/tenant1": ("/tenant1", READ, ADMIN),
    "/core/factories/tenant1:deep": ("/tenant1/deep", READ, ADMIN),
    "/core/factories/tenant1x": ("/tenant1x", READ, ADMIN),
    "/core/examples/x": ("/core/examples/x", READ, WRITE),
    "/core/snapshots/x": ("/core/snapshots/x", READ, WRITE),
    "/core/streams/clicks": ("/core/streams/clicks", READ, ADMIN),
    "/core/streams/clicks/partitions/0": ("/core/streams/clicks/partitions/0", READ, ADMIN),
    "/core/streams/clicksx": ("/core/streams/clicksx", READ, ADMIN),
    "/core/streams/other": ("/core/streams/other", READ, ADMIN),
    "/core/producers/p": ("/core/producers/p", READ, WRITE),
    "/core/leases/l": ("/core/leases/l", READ, WRITE),
    "/core/elections/e": ("/core/elections/e", READ, WRITE),
    "/core/locks/l": ("/core/locks/l", READ, WRITE),
    "/core/groups/g": ("/core/groups/g", READ, WRITE),
    "/core/groups/g/offsets": ("/core/groups/g/offsets", READ, WRITE),
    "/core/roles/r/members": ("/core/roles/r/members", READ, WRITE),
    "/core/spark/jobs/j": ("/core/spark/jobs/j", READ, WRITE),
    "/core/spark/quotas/j": ("/core/spark/quotas/j", READ, ADMIN),
    "/core/spark/staging": ("/core/spark/staging", READ, WRITE),
    "/core/spark/staging/j/p": ("/core/spark/staging", READ, WRITE),
    "/core/spark/layout": ("", ANY, ADMIN),
    "/core/backup/rows": ("/", ADMIN, READ),
    "/core/management": ("/core/management", READ, ADMIN),
    "/core/management/digests": ("/core/management/digests", READ, ADMIN),
    "/core/management/trace": ("/core/management/trace", ADMIN, ADMIN),
    "/core/node-groups/default": ("/core/node-groups/default", ANY, ADMIN),
    "/core/node-selectors/default": ("/core/node-selectors/default", ANY, ADMIN),
    "/core/access": ("", ANY, ADMIN),
    "/core/unheard/of": ("/core/unheard/of", ADMIN, ADMIN),
    "/metrics": ("/metrics", READ, ADMIN),
    "/health/ready": ("", OPEN, ADMIN),
    "/": ("", ANY, ANY),
}
STREAMS = "/core/streams/"
"""Below it, POST appends records."""
TRICKS = (
    "/tenant1/../tenant2/a", "/tenant1/%2e%2e/tenant2/a", "/tenant1/./a", "//tenant1/a",
    "/tenant1//a", "/tenant1%2fa", "/tenant1/a%2f..%2f..%2ftenant2%2fa", "/tenant1/%00",
    "/tenant1\\a", "/tenant1/a%5c", "/tenant1/%ff", "/tenant1/%zz", "/tenant1/a/",
    "/tenant1/%c0%ae", "/tenant1/a%0d%0a", "/tenant1/%252e%252e/tenant2/a%2f",
)  # fmt: skip


def has(role: str, level: int, path: str) -> bool:
    """Say whether a role has a level at a path: an oracle that shares no line with the product."""
    for granted, name in GRANTS[role].items():
        segments = [part for part in granted.split("/") if part]
        if LEVELS[name] >= level and path.split("/")[1 : 1 + len(segments)] == segments:
            return True
    return False


QUICK = ("nobody", "one-document", "tenant", "operator")
"""The roles that `make test` plays; `make thorough` plays the others."""
ROLES = [
    role if role in QUICK else pytest.param(role, marks=pytest.mark.thorough) for role in GRANTS
]


def is_expected(role: str, method: str, target: str) -> bool:
    path, to_read, to_change = PATHS[target]
    level = to_read if method in READERS else to_change
    if method == "POST" and target.startswith(STREAMS):
        level = WRITE
    return level <= ANY or has(role, level, path or target)


@pytest.mark.parametrize("role", ROLES)
async def test_each_role_may_do_exactly_what_it_is_granted(asker: Asker, role: str) -> None:
    wrong = []
    for target, method in itertools.product(PATHS, ALL):
        if role == "operator" and (method, target) == ("DELETE", "/core/management"):
            continue  # It stops the node.
        body = b'{"a": 1}' if method in ("PUT", "PATCH", "POST") else None
        status, content, _ = await asker.ask(role, method, target, body)
        problem = json.loads(content) if content and status >= 400 else {}
        is_hidden = problem.get("detail", "").startswith("there is nothing")
        is_refused = status in (401, 403) or is_hidden
        if method == "HEAD":
            is_refused = status in (401, 403, 404)
        if is_refused == is_expected(role, method, target) and not _is_gone(status, target):
            wrong.append((method, target, status))
        if method in ("DELETE", "PUT"):  # For the next method.
            await _restore(asker)
    assert not wrong


@pytest.mark.parametrize("role", ROLES)
async def test_allow_names_the_methods_that_a_role_may_use(asker: Asker, role: str) -> None:
    for target in PATHS:
        _, _, whole = await asker.ask("operator", "OPTIONS", target)
        status, _, headers = await asker.ask(role, "OPTIONS", target)
        if status == HTTPStatus.NO_CONTENT and "Allow" in whole:
            granted = [
                each
                for each in whole["Allow"].split(", ")
                if each in READERS or is_expected(role, each, target)
            ]
            assert headers["Allow"].split(", ") == granted, target


@pytest.mark.parametrize(
    ("role", "path", "makes"),
    [
        ("operator", "/core/factories", True),
        ("writer", "/core/factories", False),
        ("tenant-admin", "/core/factories", True),  # Below /tenant1.
        ("tenant", "/core/factories", False),
        ("operator", "/core/streams", True),
        ("writer", "/core/streams", False),
        ("producer", "/core/streams", False),
        ("topic-admin", "/core/streams", True),
    ],
)
async def test_allow_names_post_if_a_role_may_create_some_child(
    asker: Asker, role: str, path: str, *, makes: bool
) -> None:
    status, _, headers = await asker.ask(role, "OPTIONS", path)
    assert (status, "POST" in headers["Allow"]) == (HTTPStatus.NO_CONTENT, makes)


def _is_gone(status: int, target: str) -> bool:
    """Say whether an answer is 404 because this test has no such document."""
    never = ("/core/examples/x", "/core/snapshots/x", "/core/producers/p", "/core/leases/l",
             "/core/elections/e", "/core/locks/l", "/core/spark/", "/core/unheard/of",
             "/core/roles/r/members", "/core/groups/g", STREAMS)  # fmt: skip
    return status == HTTPStatus.NOT_FOUND and target.startswith(never)


@pytest.mark.parametrize("target", TRICKS)
async def test_no_spelling_of_a_path_escapes_the_grant(
    asker: Asker, raw: Raw, base_url: str, target: str
) -> None:
    host = base_url.removeprefix("http://")
    roles = ("tenant", "tenant-admin", "one-document", "writer")
    for role, method in itertools.product(roles, ("GET", "PUT", "DELETE")):
        head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {role}\r\n"
        answer = await raw(f"{head}Connection: close\r\n\r\n".encode("latin-1"))
        assert answer.startswith(b"HTTP/1.1 400 "), answer
    for link in DOCUMENTS:
        assert (await asker.ask("operator", "GET", link))[0] == HTTPStatus.OK


async def _restore(asker: Asker) -> None:
    for path in FACTORIES:
        declared = f'{{"path": "{path}"}}'.encode()
        await asker.ask("operator", "POST", "/core/factories", declared, Prefer="recreate")
    for link in DOCUMENTS:
        await asker.ask("operator", "PUT", link, b'{"a": 1}')
