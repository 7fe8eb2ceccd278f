"""Every route is in the table of permissions, and a route that is not there is closed."""

import re

import pytest

from docstore.access.grants import AccessLevel
from docstore.http.core_pages import ENTRY
from docstore.http.metrics import KNOWN_METHODS
from docstore.http.permissions import permission_for, permissions_at
from docstore.http.routes.route import ADMIN, ANYBODY, INSIDE, OPEN, READ, WRITE
from docstore.http.routes.table import BY_PATH, PERMISSIONS
from docstore.services.registry import Registry
from tests.source import ROOT

CLOSED = {"", "/core", "/mgmt", "/health"}
"""Lines for the paths that no other line covers."""


def routes() -> set[str]:
    """Return the paths of the routes of a server and of the store's factories."""
    paths = {path for path in BY_PATH if "{" not in path} - {ENTRY}
    return paths | {each.options.path for each in Registry().services()}


def documented() -> set[str]:
    """Return the built-in paths that the documentation names."""
    text = (ROOT / "docs/http.md").read_text()
    found = re.findall(r"(/(?:core|health)/[a-z/-]+(?:\.json)?|/metrics)", text)
    return {each.rstrip("/") for each in found} - {"/core/lease"}


@pytest.mark.parametrize("path", sorted(routes() | documented()))
def test_each_route_is_in_the_table(path: str) -> None:
    assert permissions_at(path)[0] not in CLOSED, f"{path} needs a line in docstore/http/routes"


def test_each_line_is_a_route() -> None:
    factories = {each.options.path for each in Registry().services()}
    for line in set(PERMISSIONS) - CLOSED:
        assert any(f"{path}/".startswith(f"{line}/") for path in {*BY_PATH, *factories}), line


def test_a_path_without_a_line_is_closed() -> None:
    for path in ("/core/new", "/core", "/mgmt/x", "/health/new", "/core/spark/new", "/core/spark"):
        for method in KNOWN_METHODS:
            assert permission_for(method, path) == (ADMIN, path)


def test_a_document_needs_a_grant_of_its_own_path() -> None:
    for path in ("/films/a", "/coreless/a", "/metricsx", "/healthy/a", "/films/core/bulk"):
        assert permission_for("GET", path) == (READ, path)
        assert permission_for("HEAD", path) == (READ, path)
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert permission_for(method, path) == (WRITE, path)


@pytest.mark.parametrize(
    ("method", "path", "need"),
    [
        ("GET", "/", (ANYBODY, "/")),
        ("POST", "/core/backup/rows", (READ, "/")),
        ("GET", "/health/ready", (OPEN, "/health/ready")),
        ("POST", "/health/ready", (ADMIN, "/health/ready")),
        ("GET", "/core/factories/a:b", (READ, "/a/b")),
        ("GET", "/core/factories/a:b/versions", (READ, "/a/b")),
        ("PUT", "/core/factories/a:b", (ADMIN, "/a/b")),
        ("GET", "/films/config", (READ, "/films/config")),
        ("PATCH", "/films/config", (ADMIN, "/films")),
        ("PATCH", "/films/1/synchronization", (ADMIN, "/films/1")),
        ("PATCH", "/core/factories/a:b/synchronization", (ADMIN, "/a/b")),
        ("DELETE", "/films/1/conflicts", (WRITE, "/films/1/conflicts")),
        ("PATCH", "/core/streams/t/config", (ADMIN, "/core/streams/t")),
        ("DELETE", "/core/factories/a", (ADMIN, "/a")),
        ("GET", "/core/factories", (READ, "/core/factories")),
        ("POST", "/core/factories", (INSIDE, "/core/factories")),
        ("POST", "/core/streams/t/records", (WRITE, "/core/streams/t/records")),
        ("POST", "/core/streams", (INSIDE, "/core/streams")),
        ("PATCH", "/core/streams/t/partitions/0", (ADMIN, "/core/streams/t/partitions/0")),
        ("DELETE", "/core/streams/t", (ADMIN, "/core/streams/t")),
        ("POST", "/core/leases/keep-alive", (WRITE, "/core/leases")),
        ("PATCH", "/core/leases/a", (WRITE, "/core/leases/a")),
        ("PUT", "/core/spark/quotas/job", (ADMIN, "/core/spark/quotas/job")),
        ("PUT", "/core/spark/staging/job/part", (WRITE, "/core/spark/staging")),
        ("GET", "/core/management/trace", (ADMIN, "/core/management/trace")),
        ("PATCH", "/core/node-groups/default", (ADMIN, "/core/node-groups/default")),
    ],
)  # fmt: skip
def test_each_operation_needs_its_permission(
    method: str, path: str, need: tuple[AccessLevel, str]
) -> None:
    assert permission_for(method, path) == need
