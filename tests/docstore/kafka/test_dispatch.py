"""Answers of a node: versions, brokers, and the refusal of bytes that are no request."""

import asyncio
import re
import struct
from typing import Any

import aiohttp
import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader

from docstore.client.local import LocalCluster
from docstore.kafka.connection import FRAME_BYTES_MAX
from docstore.kafka.dispatch import Dispatch
from docstore.kafka.sasl import Login
from tests.docstore.http.streams.asking import created
from tests.docstore.kafka.wire import API_VERSIONS, NOW_S, Wire, connected, topics
from tests.source import ROOT

METADATA, ADD_PARTITIONS_TO_TXN, CREATE_ACLS, WRITE_TXN_MARKERS = 3, 24, 30, 27


@pytest.mark.parametrize("version", range(4))
async def test_the_node_announces_the_keys_that_it_serves(wire: Wire, version: int) -> None:
    fields = {"client_software_name": "wire", "client_software_version": "1"}
    found = await wire.ask(API_VERSIONS, version, **fields)
    assert found.error_code == ErrorCode.none
    keys = {each.api_key: (each.min_version, each.max_version) for each in found.api_keys}
    assert keys[API_VERSIONS] == (0, 3)
    assert ADD_PARTITIONS_TO_TXN not in keys


async def test_the_page_has_the_keys_and_versions_that_are_announced(wire: Wire) -> None:
    page = (ROOT / "docs/kafka.md").read_text("utf-8")
    shown = {
        int(key): (name.lower(), int(least), int(most or least))
        for name, key, least, most in re.findall(
            r"^\| (\w+) \| (\d+) \| (\d+)(?: to (\d+))? \|$", page, re.MULTILINE
        )
    }
    found = await wire.ask(API_VERSIONS, 0)
    assert shown == {
        each.api_key: (
            api_key_map[each.api_key].replace("_", ""), each.min_version, each.max_version
        )
        for each in found.api_keys
    }  # fmt: skip


async def test_an_unknown_version_of_the_versions_is_answered_by_the_oldest(wire: Wire) -> None:
    body = b"\0\x12\0\x63" + b"\0\0\0\x07" + b"\xff\xff"
    wire.writer.write(len(body).to_bytes(4, "big") + body)
    correlation, found = await wire.answer(API_VERSIONS, 0)
    assert correlation == 7
    assert found.error_code == ErrorCode.unsupported_version
    assert API_VERSIONS in [each.api_key for each in found.api_keys]


@pytest.mark.parametrize("version", range(10))
async def test_metadata_names_the_leader_of_each_partition(
    wire: Wire, http: aiohttp.ClientSession, port: int, version: int
) -> None:
    name = (await created(http, partitions=2)).rpartition("/")[2]
    asked = {
        "allow_auto_topic_creation": True, "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }  # fmt: skip
    found = await until_led(wire, version, topics=topics(name, "absent"), **asked)
    [broker] = found.brokers
    assert (broker.host, broker.port) == ("127.0.0.1", port)
    known, absent = found.topics
    assert absent.error_code == ErrorCode.unknown_topic_or_partition
    assert [each.partition_index for each in known.partitions] == [0, 1]
    for each in known.partitions:
        assert each.error_code == ErrorCode.none
        assert each.leader_id == broker.node_id
        assert tuple(each.isr_nodes) == tuple(each.replica_nodes) == (broker.node_id,)
    every = await wire.ask(METADATA, version, topics=None if version else (), **asked)
    assert name in [each.name for each in every.topics]
    async with http.get("/core/streams/absent") as answer:
        assert answer.status == 404


async def until_led(wire: Wire, version: int, **fields: Any) -> Any:
    """Request metadata until the partitions of the first topic have leaders."""
    async with asyncio.timeout(NOW_S):
        while True:
            found = await wire.ask(METADATA, version, **fields)
            if all(each.error_code == ErrorCode.none for each in found.topics[0].partitions):
                return found


async def test_the_page_of_the_group_shows_the_listener(
    http: aiohttp.ClientSession, group: LocalCluster, port: int
) -> None:
    async with http.get("/core/node-groups/default") as answer:
        [member] = (await answer.json())["members"]
    assert member["kafka"] == f"127.0.0.1:{port}"
    async with http.get("/core/management") as answer:
        assert (await answer.json())["addresses"]["kafka"] == f"127.0.0.1:{port}"


async def test_an_unsupported_key_is_refused_with_its_code(wire: Wire) -> None:
    found = await wire.ask(
        ADD_PARTITIONS_TO_TXN, 4, transactions=(), v3_and_below_transactional_id="",
        v3_and_below_producer_id=0, v3_and_below_producer_epoch=0, v3_and_below_topics=(),
    )  # fmt: skip
    assert found.error_code == ErrorCode.unsupported_version
    wire.send(CREATE_ACLS, 2, creations=())  # Its answer has no field for an error code.
    assert await wire.is_closed()


@pytest.mark.parametrize(("key", "version"), [(25, 0), (25, 4), (55, 1), (68, 1), (76, 1)])
async def test_the_refusal_of_a_key_has_the_form_of_its_answer(key: int, version: int) -> None:
    frame = struct.pack(">hhih", key, version, 1, -1)
    pieces = await Dispatch(()).serve(frame, "", Login(None, ""), asyncio.Event())
    assert isinstance(pieces, list)
    raw, entity = b"".join(pieces), load_response_schema(key, version)
    begin = 9 if entity.__flexible__ else 8
    found, size = entity_reader(entity)(raw, begin)
    assert found.error_code == ErrorCode.unsupported_version
    assert begin + size == len(raw)


HEAD = b"\0\x03\0\x01\0\0\0\x01\xff\xff"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        (FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0\0\0\x03\0\x03\0",
        b"\0\0\0\x0e" + HEAD + b"\x7f\xff\xff\xff",
        b"\0\0\0\x0f" + HEAD + b"\0\0\0\x05\0",
        b"\0\0\0\x12" + HEAD + b"\0\0\0\x01\0\x02\xff\xfe",
        b"\0\0\0\x0a" + b"\x03\xe7\0\0\0\0\0\x01\xff\xff",
        b"\0\0\0\x10" + b"\0\x03\0\x09\0\0\0\x01\xff\xff\0\xff\xff\xff\xff\x0f",
    ],
    ids=[
        "2 GB", "negative", "too large", "HTTP", "TLS", "too short", "2^31 elements", "five topics",
        "not UTF-8", "no such key", "2^32 elements",
    ],
)  # fmt: skip
async def test_malformed_bytes_close_the_connection(
    wire: Wire, port: int, group: LocalCluster, sent: bytes
) -> None:
    wire.writer.write(sent)
    assert await wire.is_closed()
    async with connected(port) as other:
        found = await other.ask(API_VERSIONS, 0)
        assert found.error_code == ErrorCode.none
    assert "Traceback" not in group.nodes[0].last_words()


async def test_requests_of_a_connection_are_answered_in_their_order(wire: Wire) -> None:
    sent = [wire.send(METADATA, 1, topics=topics("absent")) for _ in range(200)]
    found = [(await wire.answer(METADATA, 1))[0] for _ in sent]
    assert found == sent
