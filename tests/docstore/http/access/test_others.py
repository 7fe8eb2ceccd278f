"""Pages and numbers of slots show nothing of documents that their reader may not read."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.errors import BadRequest
from docstore.query.cut import Cut, unpack_part
from docstore.reads.positions import Positions
from tests.docstore.access.tokens import digest
from tests.docstore.http.access.conftest import Asker, rules_text
from tests.docstore.http.single import SingleNode


@pytest.mark.parametrize(
    ("role", "query", "status"),
    [
        ("operator", "", 200),
        ("reader", "", 200),
        ("tenant-reader", "", 404),
        ("one-document", "", 404),
        ("nobody", "", 404),
        ("tenant-reader", "?prefix=/tenant1", 200),
        ("tenant-reader", "?prefix=/tenant1/deep", 200),
        ("tenant-reader", "?prefix=/tenant1x", 404),
        ("tenant-reader", "?prefix=/", 404),
        ("tenant-reader", "?prefix=/core/leases", 404),
        ("one-document", "?prefix=/tenant1", 404),
        ("nobody", "?prefix=/tenant1", 404),
    ],
)
async def test_numbers_of_slots_need_read_of_the_whole_prefix(
    asker: Asker,
    node: SingleNode,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    query: str,
    status: int,
) -> None:
    async def positions(slots: None, timeout_s: float) -> dict[int, Any]:
        return {}

    monkeypatch.setattr(node, "scan_layout", dict, raising=False)
    monkeypatch.setattr(node, "positions", SimpleNamespace(of_all=positions), raising=False)
    monkeypatch.setattr(node, "cluster", "c1", raising=False)
    for page in ("plan", "high"):
        assert (await asker.ask(role, "GET", f"/core/spark/{page}{query}"))[0] == status


RULES = """
[roles.watcher]
"/core/leases" = "read"
"/core/locks" = "read"
"/core/groups" = "read"
"/core/spark" = "read"
"/tenant1" = "read"
[users.watcher]
tokens = ["{}"]
roles = ["watcher"]
"""


async def test_pages_name_only_readable_documents(
    asker: Asker, node: SingleNode, authenticator: Authenticator
) -> None:
    lease = {"documentSelfLink": "/core/leases/l", "ttlMs": 5000}
    await asker.ask("operator", "POST", "/core/leases", json.dumps(lease).encode())
    for link in ("/tenant1/a", "/tenant2/a"):
        attached = json.dumps({"kind": "AttachRequest", "link": link}).encode()
        status, content, _ = await asker.ask("operator", "PATCH", "/core/leases/l", attached)
        assert status == 200, content
    held = {"candidate": "c", "lease": "/tenant2/lease", "value": None}
    states = {
        "/core/locks/x": {"holder": held, "token": 1, "queue": [], "graceMs": 0},
        "/core/locks/y": {"holder": None, "token": 1, "queue": [held], "graceMs": 0},
        "/core/locks/z": {"holder": None, "queue": [], "past": [["c", "/tenant2/lease", 1]]},
        "/core/groups/g": {"format": 1, "topics": {"theirs": 1}, "members": [["theirs"]]},
        "/core/spark/dead/d": {"job": "j", "link": "/tenant2/a", "row": '{"theirs":7}'},
        "/core/spark/jobs/j": {"job": "j", "path": "/tenant2", "theirs": 7},
    }
    template = node.histories["/core/leases/l"][-1]
    for link, state in states.items():
        node.histories[link] = [template._replace(link=link, state=json.dumps(state).encode())]
    authenticator.use(rules_of(rules_text() + RULES.format(digest("watcher"))))
    for role, sees in (("watcher", False), ("operator", True)):
        for link in ("/core/leases/l", *states):
            factory = link.rpartition("/")[0]
            pages = [f"{link}/versions", f"{factory}?expand", f"{factory}?$expand=true"]
            if factory not in ("/core/leases", "/core/groups", "/core/locks"):
                pages += [link, f"/core/document-index?documentSelfLink={link}"]
            elif factory == "/core/leases":
                pages += [f"{link}?documentVersion=0", f"{link}?documentVersion=2"]
            for page in pages:
                status, content, _ = await asker.ask(role, "GET", page)
                assert status == 200, (page, content)
                assert (b"tenant2" in content or b"theirs" in content) is sees or (
                    sees and page.endswith("documentVersion=0")
                ), (role, page, content.decode())
    _, content, _ = await asker.ask("watcher", "GET", "/core/leases/l?documentVersion=2")
    assert json.loads(content)["attached"] == ["/tenant1/a"]
    for prefix in ("/core/leases", "/core/groups", "/core/spark/dead", "/core/spark/jobs"):
        assert (await asker.ask("watcher", "GET", f"/core/changes?prefix={prefix}"))[0] == 404
        query = json.dumps({"path": prefix}).encode()
        assert (await asker.ask("watcher", "POST", "/core/query-tasks", query))[0] == 404
        hook = b'{"callback": "https://hooks.example/"}'
        assert (await asker.ask("watcher", "POST", f"{prefix}/subscriptions", hook))[0] == 404


RIVAL = """
[roles.rival]
"/core/locks" = "write"
"/core/leases/own" = "write"
[users.rival]
tokens = ["{}"]
roles = ["rival"]
"""


@pytest.mark.parametrize("named", ["theirs", "/core/leases/theirs"])
async def test_withdrawing_a_candidate_needs_write_of_its_lease(
    asker: Asker, authenticator: Authenticator, node: SingleNode, named: str
) -> None:
    await asker.ask("operator", "POST", "/core/locks", b'{"name": "x"}')
    head = node.histories["/core/locks/x"][-1]
    leases = {name: f"/core/leases/{name}" for name in ("own", "theirs")}
    queue = [{"candidate": name, "lease": link, "value": 0} for name, link in leases.items()]
    state = {"holder": queue[1], "token": 1, "queue": queue[:1], "graceMs": 0, "vacant": ""}
    node.histories["/core/locks/x"] = [head._replace(state=json.dumps(state).encode())]
    authenticator.use(rules_of(rules_text() + RIVAL.format(digest("rival"))))
    for user, name, status in (
        ("rival", named, 403), ("rival", "own", 200), ("operator", named, 200)
    ):  # fmt: skip
        asked = {"kind": "ReleaseRequest", "lease": name, "candidate": name.rpartition("/")[2]}
        answer = await asker.ask(user, "PATCH", "/core/locks/x", json.dumps(asked).encode())
        assert answer[0] == status, answer


async def test_positions_of_a_partial_reader_are_opaque_and_valid_at_every_node(
    asker: Asker, node: SingleNode
) -> None:
    some, other = (Positions(node.submit) for _ in range(2))  # Two nodes of one group.
    few, many = (Cut("c1", tuple((1, n + slot) for slot in range(64))) for n in (3, 4_000))
    pack = await some.packing(1, reads_all=False)
    tokens = [pack(few), pack(few), pack(many)]
    assert len(set(tokens)) == len(tokens)
    assert len(set(map(len, tokens))) == 1
    for token, cut in zip(tokens, (few, few, many), strict=True):
        with pytest.raises(BadRequest):
            unpack_part(token)
        assert await other.opened(token, 1) == cut.pack()
    for wrong in (tokens[0][:-8], tokens[0][:-8] + "AAAAAAAA", "~~", "~~\xe4"):
        with pytest.raises(BadRequest):
            await other.opened(wrong, 1)
    assert (await some.packing(1, reads_all=True))(few) == few.pack()
    assert await some.opened("latest", 1) == "latest"
    for role, status in (("tenant", 404), ("reader", 404), ("operator", 200)):
        assert (await asker.ask(role, "GET", "/core/feed-keys/first"))[0] == status
    for method in ("PUT", "DELETE"):
        assert (await asker.ask("operator", method, "/core/feed-keys/first", b"{}"))[0] == 405
