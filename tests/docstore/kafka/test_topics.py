"""Topics by Kafka's requests: created, enlarged, configured, deleted, and refused."""

from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from kio.schema.errors import ErrorCode

from tests.docstore.http.streams.asking import created
from tests.docstore.kafka.wire import Fields, Wire

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
TOPIC, BROKER = 2, 4
PATIENCE: dict[str, Any] = {"timeout": timedelta(seconds=5)}


def wanted(name: str, *, partitions: int = 1, replicas: int = 1, **configs: str) -> Fields:
    """Return a topic as CreateTopics asks for it."""
    given = [Fields(name=each.replace("_", "."), value=text) for each, text in configs.items()]
    return Fields(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=(),
        configs=given,
    )  # fmt: skip


async def create(wire: Wire, version: int, *topics: Fields, validate_only: bool = False) -> Any:
    return await wire.ask(
        CREATE_TOPICS, version, topics=topics, validate_only=validate_only, **PATIENCE
    )


async def page(http: aiohttp.ClientSession, name: str) -> dict[str, Any]:
    async with http.get(f"/core/streams/{name}") as answer:
        return dict(await answer.json())


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created_as_over_http(
    wire: Wire, http: aiohttp.ClientSession, version: int
) -> None:
    name = f"created-{version}"
    asked = wanted(name, partitions=2, retention_ms="-1", max_message_bytes="500000")
    tried = await create(wire, version, asked, validate_only=True)
    assert [each.error_code for each in tried.topics] == [ErrorCode.none]
    assert (await page(http, name))["statusCode"] == 404
    found = await create(wire, version, asked)
    assert [each.error_code for each in found.topics] == [ErrorCode.none]
    if version >= 5:  # The Java client fails at null settings.
        configs = {each.name: each.value for each in found.topics[0].configs}
        assert (configs["retention.ms"], configs["cleanup.policy"]) == ("-1", "delete")
    shown = await page(http, name)
    assert shown["partitionCount"] == 2
    assert shown["retention"]["ms"] == 0
    assert shown["batchBytesMax"] == 500_000 - 1024
    for only in (True, False):
        again = await create(wire, version, asked, validate_only=only)
        assert [each.error_code for each in again.topics] == [ErrorCode.topic_already_exists]
        assert version < 5 or again.topics[0].configs == ()


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (wanted("a/b"), ErrorCode.invalid_topic_exception),
        (wanted(""), ErrorCode.invalid_topic_exception),
        (wanted("none", partitions=0), ErrorCode.invalid_partitions),
        (wanted("many", partitions=1 << 30), ErrorCode.invalid_partitions),
        (wanted("wide", replicas=2), ErrorCode.invalid_replication_factor),
        (wanted("strange", no_such="1"), ErrorCode.invalid_config),
        (wanted("wrong", retention_ms="soon"), ErrorCode.invalid_config),
        (wanted("low", retention_ms="0"), ErrorCode.invalid_config),
        (wanted("high", min_insync_replicas="2"), ErrorCode.invalid_config),
    ],
    ids=lambda each: getattr(each, "name", None),
)
async def test_a_topic_with_invalid_settings_is_refused_by_its_code(
    wire: Wire, asked: Fields, code: ErrorCode
) -> None:
    found = await create(wire, 4, asked, wanted("fine"), validate_only=True)
    assert [each.error_code for each in found.topics] == [code, ErrorCode.none]
    assert found.topics[0].error_message


@pytest.mark.parametrize("version", range(4))
async def test_a_topic_gets_more_partitions(
    wire: Wire, http: aiohttp.ClientSession, version: int
) -> None:
    name = (await created(http, partitions=2)).rpartition("/")[2]
    for count, code in (
        (2, ErrorCode.invalid_partitions),
        (3, ErrorCode.none),
        (1, ErrorCode.invalid_partitions),
    ):
        asked = Fields(name=name, count=count, assignments=None)
        found = await wire.ask(
            CREATE_PARTITIONS, version, topics=[asked], validate_only=False, **PATIENCE
        )
        assert [each.error_code for each in found.results] == [code]
    assert (await page(http, name))["partitionCount"] == 3


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_topic_is_deleted(wire: Wire, http: aiohttp.ClientSession, version: int) -> None:
    name = (await created(http)).rpartition("/")[2]
    codes: dict[str | None, ErrorCode] = {
        name: ErrorCode.none,
        "absent": ErrorCode.unknown_topic_or_partition,
    }
    asked: dict[str, Any] = {"topic_names": list(codes), **PATIENCE}
    if version >= 6:
        codes |= {None: ErrorCode.unknown_topic_id}
        asked["topics"] = [Fields(name=each, topic_id=None) for each in codes]
    found = await wire.ask(DELETE_TOPICS, version, **asked)
    assert {each.name: each.error_code for each in found.responses} == codes
    assert (await page(http, name))["statusCode"] == 404


async def configs(wire: Wire, version: int, name: str, *keys: str) -> dict[str, tuple[str, bool]]:
    """Return name -> (value, whether it is the default)."""
    resource = Fields(resource_type=TOPIC, resource_name=name, configuration_keys=keys or None)
    found = await wire.ask(
        DESCRIBE_CONFIGS, version, resources=[resource], include_synonyms=True,
        include_documentation=False,
    )  # fmt: skip
    [result] = found.results
    assert result.error_code == ErrorCode.none, result.error_message
    return {each.name: (each.value, each.config_source == 5) for each in result.configs}


async def test_a_topic_is_compacted(wire: Wire, http: aiohttp.ClientSession) -> None:
    found = await create(wire, 4, wanted("compacted", cleanup_policy="delete,compact"))
    assert found.topics[0].error_code == ErrorCode.none
    assert (await page(http, "compacted"))["cleanup"] == "compact,delete"
    for value, code in (
        ("compact", ErrorCode.none),
        ("compact,dust", ErrorCode.invalid_config),
        ("delete", ErrorCode.none),
    ):
        changed = setting("cleanup.policy", value)
        assert await alter(wire, INCREMENTAL_ALTER_CONFIGS, 1, "compacted", changed) == code
    assert (await configs(wire, 4, "compacted"))["cleanup.policy"] == ("delete", True)


async def test_compression_is_a_setting_of_the_topic(
    wire: Wire, http: aiohttp.ClientSession
) -> None:
    name = (await created(http)).rpartition("/")[2]
    for value, shown, stored in (
        ("zstd", "zstd", "zstd"),
        ("uncompressed", "producer", "none"),
        ("zstd", "zstd", "zstd"),
        ("producer", "producer", "none"),
    ):
        changed = setting("compression.type", value)
        assert await alter(wire, INCREMENTAL_ALTER_CONFIGS, 1, name, changed) == ErrorCode.none
        assert (await configs(wire, 4, name))["compression.type"][0] == shown
        assert (await page(http, name))["compression"] == stored
    changed = setting("compression.type", "gzip")
    assert await alter(wire, INCREMENTAL_ALTER_CONFIGS, 1, name, changed) == (
        ErrorCode.invalid_config
    )


async def alter(wire: Wire, key: int, version: int, name: str, *changes: Fields) -> ErrorCode:
    resource = Fields(resource_type=TOPIC, resource_name=name, configs=changes)
    found = await wire.ask(key, version, resources=[resource], validate_only=False)
    [result] = found.responses
    return ErrorCode(result.error_code)


def setting(name: str, value: str | None, operation: int = 0) -> Fields:
    return Fields(name=name, value=value, config_operation=operation)


@pytest.mark.parametrize("version", range(1, 5))
async def test_settings_are_shown_and_changed(
    wire: Wire, http: aiohttp.ClientSession, version: int
) -> None:
    name = (await created(http)).rpartition("/")[2]
    assert (await configs(wire, version, name))["retention.ms"] == ("604800000", True)
    code = await alter(
        wire, INCREMENTAL_ALTER_CONFIGS, 1, name, setting("retention.ms", "5000"),
        setting("retention.bytes", "7000"),
    )  # fmt: skip
    assert code == ErrorCode.none
    assert (await page(http, name))["retention"] == {"ms": 5000, "bytes": 7000}
    deleted = setting("retention.bytes", None, operation=1)
    assert await alter(wire, INCREMENTAL_ALTER_CONFIGS, 0, name, deleted) == ErrorCode.none
    shown = await configs(wire, version, name, "retention.ms", "retention.bytes")
    assert shown == {"retention.ms": ("5000", False), "retention.bytes": ("-1", True)}
    # AlterConfigs resets what it does not name.
    code = await alter(wire, ALTER_CONFIGS, 1, name, setting("retention.bytes", "9000"))
    assert code == ErrorCode.none
    shown = await configs(wire, version, name, "retention.ms", "retention.bytes")
    assert shown == {"retention.ms": ("604800000", True), "retention.bytes": ("9000", False)}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (setting("max.message.bytes", "100000"), ErrorCode.invalid_config),
        (setting("retention.ms", "x"), ErrorCode.invalid_config),
        (setting("retention.ms", "1", operation=2), ErrorCode.invalid_config),
        (setting("min.insync.replicas", "3"), ErrorCode.invalid_config),
    ],
    ids=["read only", "no number", "append", "too many"],
)
async def test_an_invalid_change_of_settings_is_refused(
    wire: Wire, http: aiohttp.ClientSession, change: Fields, code: ErrorCode
) -> None:
    name = (await created(http)).rpartition("/")[2]
    before = await configs(wire, 4, name)
    assert await alter(wire, INCREMENTAL_ALTER_CONFIGS, 1, name, change) == code
    assert await configs(wire, 4, name) == before
    absent = await alter(wire, INCREMENTAL_ALTER_CONFIGS, 1, "absent", change)
    assert absent == ErrorCode.unknown_topic_or_partition
