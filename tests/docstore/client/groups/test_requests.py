"""Requests to groups, roles and members: their answers and refusals."""

from typing import Any

import pytest

from docstore.client import Client, RequestFailed


async def refused(client: Client, method: str, path: str, body: Any = None) -> tuple[int, str]:
    with pytest.raises(RequestFailed) as error:
        await client.json(method, path, body)
    return error.value.status, error.value.code


@pytest.fixture
async def roles(client: Client, name: str) -> str:
    """Create two roles without a leader; return their path."""
    page = await client.json("POST", "/core/roles", {"name": name, "partitions": 2})
    return str(page["documentSelfLink"])


async def join(client: Client, path: str, member: str) -> Any:
    return await client.json("POST", f"{path}/members", {"member": member})


def pulse(generation: int, *owned: str, number: int = 1) -> dict[str, Any]:
    said = {"kind": "HeartbeatRequest", "number": number, "listing": number}
    return {**said, "generation": generation, "owned": list(owned)}


async def test_a_member_joins_heartbeats_waits_and_leaves(client: Client, roles: str) -> None:
    joined = await join(client, roles, "x")
    assert joined["kind"] == "Joined"
    assert joined["settings"]["sessionMs"] == 6_000
    answer = await client.json("PATCH", f"{roles}/members/x", pulse(1))
    assert (answer["kind"], answer["assigned"]) == ("Changed", {"0": 1, "1": 1})
    answer = await client.json("PATCH", f"{roles}/members/x", pulse(1, "0", "1", number=2))
    assert answer == {"kind": "Confirmed", "listing": 2}
    page = await client.json("GET", f"{roles}/members")
    assert page["members"]["x"]["owned"] == ["0", "1"]
    wait = {"kind": "WaitRequest", "generation": 1, "listing": 2}
    answer = await client.json("PATCH", f"{roles}/members/x", wait, Prefer="wait=1")
    assert answer == {"kind": "Woken"}
    answer = await client.json("DELETE", f"{roles}/members/x")
    assert answer == {"kind": "Left"}
    assert (await client.json("GET", roles))["state"] == "Empty"


async def test_n14_a_request_of_an_unknown_member_is_404(client: Client, roles: str) -> None:
    path = f"{roles}/members/x"
    assert await refused(client, "PATCH", path, pulse(1)) == (404, "unknown-member")
    assert await refused(client, "DELETE", f"{path}?force") == (404, "unknown-member")


async def test_a_member_fenced_by_an_operator_stays_until_its_session_ends(
    client: Client, roles: str
) -> None:
    await join(client, roles, "x")
    page = await client.json("DELETE", f"{roles}/members/x?force")
    assert page["members"]["x"]["fenced"] is True
    assert await refused(client, "PATCH", f"{roles}/members/x", pulse(1)) == (409, "fenced")
    assert len((await client.json("GET", roles))["members"]) == 1, "its session was just confirmed"


BAD_GROUPS: list[tuple[str, dict[str, Any], int]] = [
    ("/core/roles", {}, 400),
    ("/core/roles", {"name": "a/b", "partitions": 1}, 400),
    ("/core/roles", {"name": "explain", "partitions": 1}, 400),
    ("/core/roles", {"name": "r"}, 400),
    ("/core/roles", {"name": "r", "partitions": 0}, 400),
    ("/core/roles", {"name": "r", "partitions": 5_000}, 400),
    ("/core/roles", {"name": "r", "partitions": 1, "mode": "both"}, 400),
    ("/core/roles", {"name": "r", "partitions": 1, "sessionMs": 100}, 400),
    ("/core/roles", {"name": "r", "partitions": 1, "windowMs": 6_000}, 422),
    ("/core/roles", {"name": "r", "partitions": 1, "more": 1}, 400),
    ("/core/groups", {"name": "g"}, 400),
    ("/core/groups", {"name": "g", "topics": ["no-such-topic"]}, 404),
    ("/core/groups", {"name": "g", "topics": []}, 400),
]


@pytest.mark.parametrize(("path", "asked", "status"), BAD_GROUPS)
async def test_invalid_groups_are_refused(
    client: Client, path: str, asked: dict[str, Any], status: int
) -> None:
    assert (await refused(client, "POST", path, asked))[0] == status


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "members", {}),
        ("POST", "members", {"member": "a/b"}),
        ("POST", "members", {"member": "x", "capacity": 0}),
        ("POST", "members", {"member": "x", "more": 1}),
        ("PATCH", "members/x", {"kind": "Other", "generation": 1, "listing": 1}),
        ("PATCH", "members/x", {"kind": "HeartbeatRequest", "generation": 1, "listing": 1}),
        ("PATCH", "members/x", pulse(1) | {"owned": "0"}),
        ("PATCH", "members/x", pulse(1) | {"number": -1}),
    ],
)
async def test_invalid_requests_of_members_are_refused(
    client: Client, roles: str, method: str, path: str, body: Any
) -> None:
    assert (await refused(client, method, f"{roles}/{path}", body))[0] == 400


async def test_settings_change_only_without_members(client: Client, roles: str) -> None:
    page = await client.json("PATCH", roles, {"sessionMs": 4_000, "partitions": 3})
    assert (page["partitions"], page["settings"]["sessionMs"]) == (3, 4_000)
    assert await refused(client, "PATCH", roles, {"windowMs": 5_000}) == (
        422,
        "refused-by-service",
    )
    await join(client, roles, "x")
    assert await refused(client, "PATCH", roles, {"sessionMs": 5_000}) == (409, "group-not-empty")
    assert await refused(client, "DELETE", roles) == (409, "group-not-empty")
    await client.json("DELETE", f"{roles}/members/x")
    assert (await client.json("DELETE", roles))["documentUpdateAction"] == "DELETE"
    assert await refused(client, "GET", roles) == (404, "no-such-group")
    assert await refused(client, "POST", f"{roles}/members", {"member": "x"}) == (
        404,
        "no-such-group",
    )


async def test_tokens_grow_when_a_group_is_recreated(client: Client, roles: str, name: str) -> None:
    await join(client, roles, "x")
    before = (await client.json("GET", f"{roles}?role=5"))["token"]
    await client.json("DELETE", f"{roles}/members/x")
    await client.json("DELETE", roles)
    await client.json("POST", "/core/roles", {"name": name, "partitions": 2})
    await join(client, roles, "y")
    assert (await client.json("GET", f"{roles}?role=5"))["token"] > before


async def test_the_document_of_a_group_is_not_written_as_a_document(
    client: Client, roles: str
) -> None:
    state = (await client.json("GET", roles)) | {"generation": 9}
    assert (await refused(client, "PUT", roles, state))[0] == 405
    bulk = await client.bulk([{"link": roles, "op": "PUT", "body": {"generation": 9}}])
    assert bulk[0]["status"] >= 400
    assert (await client.json("GET", roles))["generation"] == 0


@pytest.fixture
async def consumers(client: Client, name: str) -> str:
    """Create a group that reads one topic of one partition; return its path."""
    await client.json("POST", "/core/streams", {"name": name})
    page = await client.json("POST", "/core/groups", {"name": name, "topics": [name]})
    return str(page["documentSelfLink"])


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"topic": "a/b", "partition": 0, "offset": 1, "token": 1},
        {"topic": "", "partition": 0, "offset": 1, "token": 1},
        {"topic": "t", "partition": "0", "offset": 1, "token": 1},
        {"topic": "t", "partition": -1, "offset": 1, "token": 1},
        "t/0",
    ],
)
async def test_offsets_of_invalid_partitions_are_refused(
    client: Client, consumers: str, offset: Any
) -> None:
    body = {"offsets": [offset]}
    assert (await refused(client, "POST", f"{consumers}/offsets", body))[0] == 400


async def join_alone(client: Client, group: str) -> dict[str, int]:
    """Let a member join; return the tokens of all partitions."""
    await join(client, group, "x")
    return dict((await client.json("PATCH", f"{group}/members/x", pulse(1)))["assigned"])


async def test_a_token_that_was_not_granted_claims_nothing(
    client: Client, consumers: str, name: str
) -> None:
    path, claim = f"{consumers}/offsets/{name}/0", {"kind": "ClaimRequest", "token": 7}
    assert await refused(client, "PATCH", path, claim) == (409, "other-token")
    token = (await join_alone(client, consumers))[f"{name}/0"]
    for other in (token - 1, token + 1):
        asked = claim | {"token": other}
        assert await refused(client, "PATCH", path, asked) == (409, "other-token")
    assert (await client.json("PATCH", path, claim | {"token": token}))["token"] == token


async def test_a_commit_from_before_its_group_was_recreated_is_refused(
    client: Client, consumers: str, name: str
) -> None:
    """A member that does not know the deletion must not set an offset of the new group."""
    token = (await join_alone(client, consumers))[f"{name}/0"]
    path, claim = f"{consumers}/offsets/{name}/0", {"kind": "ClaimRequest", "token": token}
    await client.json("PATCH", path, claim)
    await client.json("DELETE", f"{consumers}/members/x")
    await client.json("DELETE", consumers)
    await client.json("POST", "/core/groups", {"name": name, "topics": [name]})
    assert await refused(client, "PATCH", path, claim) == (409, "other-token")
    late = {"topic": name, "partition": 0, "offset": 9, "token": token}
    with pytest.raises(RequestFailed) as error:
        await client.json("POST", f"{consumers}/offsets", {"offsets": [late]})
    assert error.value.status == 409
    [result] = error.value.problem["offsets"]
    assert (result["status"], result["code"]) == (409, "not-claimed")
    [offset] = (await client.json("GET", f"{consumers}/offsets"))["offsets"]
    assert offset["offset"] == -1


async def test_a_late_commit_does_not_undo_a_reset(
    client: Client, consumers: str, name: str
) -> None:
    """The member does not know yet that its session has ended."""
    records = {"records": [{"value": number} for number in range(4)]}
    await client.json("POST", f"/core/streams/{name}/partitions/0/records", records)
    token = (await join_alone(client, consumers))[f"{name}/0"]
    path = f"{consumers}/offsets/{name}/0"
    await client.json("PATCH", path, {"kind": "ClaimRequest", "token": token})
    await client.json("DELETE", f"{consumers}/members/x")
    for where, asked in ((path, {"offset": 1}), (f"{consumers}/offsets", {"to": "1"})):
        await client.json("PATCH", where, {"kind": "ResetRequest", **asked})
        late = {"topic": name, "partition": 0, "offset": 4, "token": token}
        with pytest.raises(RequestFailed) as error:
            await client.json("POST", f"{consumers}/offsets", {"offsets": [late]})
        assert error.value.problem["offsets"][0]["code"] == "fenced"
    given = {"kind": "ResetRequest", "offset": 1, "token": 9}
    assert (await refused(client, "PATCH", path, given))[0] == 400
    again = (await join_alone(client, consumers))[f"{name}/0"]
    claim = {"kind": "ClaimRequest", "token": again}
    assert (await client.json("PATCH", path, claim))["offset"] == 1


async def test_offsets_are_stored_for_the_partitions_of_the_group_only(
    client: Client, consumers: str, name: str
) -> None:
    token = (await join_alone(client, consumers))[f"{name}/0"]
    claim = {"kind": "ClaimRequest", "token": token}
    path = f"{consumers}/offsets/{name}"
    records = {"records": [{"value": number} for number in range(4)]}
    await client.json("POST", f"/core/streams/{name}/partitions/0/records", records)
    assert (await client.json("PATCH", f"{path}/0", claim))["offset"] == -1
    assert (await refused(client, "PATCH", f"{path}/1", claim))[0] == 404
    commit = {"topic": name, "partition": 0, "offset": 4, "token": token}
    other = commit | {"partition": 1}
    page = await client.json("POST", f"{consumers}/offsets", {"offsets": [commit, other]})
    assert [each["status"] for each in page["offsets"]] == [200, 404]
    beyond = {"offsets": [commit | {"offset": 5}, commit | {"incarnation": "another"}]}
    page = await client.json("POST", f"{consumers}/offsets", beyond)
    assert [(each["status"], each["code"]) for each in page["offsets"]] == [
        (416, "offset-out-of-range"), (409, "topic-recreated"),
    ]  # fmt: skip
    assert (await client.json("PATCH", f"{path}/0", claim))["offset"] == 4
    unknown = "/core/groups/unknown/offsets"
    assert await refused(client, "PATCH", f"{unknown}/{name}/0", claim) == (404, "no-such-group")
    assert await refused(client, "GET", unknown) == (404, "no-such-group")
