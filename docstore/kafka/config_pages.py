"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, of topics."""

from collections.abc import Sequence

from docstore.http.backend import Backend
from docstore.kafka.changing import Refused, change, insist, refused
from docstore.kafka.configs import SET, SETTINGS, changes_of, defaults_of
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode
from docstore.kafka.reading import TIMEOUT_S, TopicReader
from docstore.kafka.schemas import Fields
from docstore.model import json
from docstore.streams.replica_set import STREAMS
from docstore.streams.requests import NoSuchTopic
from docstore.streams.topic import Topic

DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
TOPIC, BROKER = 2, 4
"""Kafka's codes of resources that have settings."""
OF_TOPIC, OF_BROKER, BY_DEFAULT = 1, 4, 5
"""Kafka's codes of the source of a value."""
OF_BROKERS = {"auto.create.topics.enable": "false"}
"""Settings of every broker, which cannot be changed."""


class ConfigPages:
    """Answers requests about settings."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._reader = TopicReader(backend)

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return (
            Api(DESCRIBE_CONFIGS, 1, 4, self.describe),
            Api(ALTER_CONFIGS, 0, 2, self.alter),
            Api(INCREMENTAL_ALTER_CONFIGS, 0, 1, self.alter),
        )

    async def describe(self, call: Call) -> Fields:
        """Answer DescribeConfigs."""
        return Fields(results=[await self._describe(call, each) for each in call.request.resources])

    async def alter(self, call: Call) -> Fields:
        """Answer AlterConfigs, which resets what it does not name, or IncrementalAlterConfigs."""
        return Fields(responses=[await self._alter(call, each) for each in call.request.resources])

    async def _describe(self, call: Call, asked: Fields) -> Fields:
        try:
            if asked.resource_type == BROKER:
                found = [_shown(name, text, OF_BROKER) for name, text in OF_BROKERS.items()]
            else:
                found = settings_of(await self._topic(call, "GET", asked))
        except Exception as error:  # noqa: BLE001 - `refused` raises what is no refusal
            return _result(asked, refused(error))
        wanted = asked.configuration_keys
        shown = [each for each in found if wanted is None or each.name in wanted]
        return Fields(**{**vars(_result(asked)), "configs": shown})

    async def _alter(self, call: Call, asked: Fields) -> Fields:
        try:
            topic = await self._topic(call, "PATCH", asked)
            steps = [
                (each.name, getattr(each, "config_operation", SET), each.value)
                for each in asked.configs
            ]
            if call.key == ALTER_CONFIGS:
                named = {name for name, _, _ in steps}
                steps += [
                    (name, SET, text)
                    for name, text in defaults_of(topic).items()
                    if name not in named
                ]
            members = changes_of(topic, steps)
            if members and not call.request.validate_only:
                await change(
                    self._backend, call, "PATCH", topic.link, TIMEOUT_S, body=json.dump(members),
                    media="handler", invalid=ErrorCode.invalid_config,
                )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - as in `_describe`
            return _result(asked, refused(error))
        return _result(asked)

    async def _topic(self, call: Call, verb: str, asked: Fields) -> Topic:
        """Return the topic that a client names. Raises Refused, Forbidden, NoSuchTopic."""
        if asked.resource_type != TOPIC:
            raise Refused(
                ErrorCode.invalid_request, "only topics have settings that can be changed"
            )
        insist(call, verb, f"{STREAMS}/{asked.resource_name}")
        topic = (await self._reader.named([asked.resource_name]))[asked.resource_name]
        if topic is None:
            raise NoSuchTopic(f"there is no topic {asked.resource_name}")
        return topic


def settings_of(topic: Topic) -> list[Fields]:
    """Return the settings of a topic as answers show them."""
    defaults = defaults_of(topic)
    return [
        _shown(
            name,
            text := setting.shown(topic),
            BY_DEFAULT if defaults.get(name, text) == text else OF_TOPIC,
            kind=setting.kind,
            read_only=not setting.path,
        )
        for name, setting in SETTINGS.items()
    ]


def _shown(name: str, text: str, source: int, *, kind: int = 0, read_only: bool = True) -> Fields:
    return Fields(
        name=name, value=text, read_only=read_only, config_source=source, is_sensitive=False,
        synonyms=(), config_type=kind, documentation=None,
    )  # fmt: skip


def _result(asked: Fields, why: Refused | None = None) -> Fields:
    return Fields(
        error_code=why.code if why else ErrorCode.none,
        error_message=str(why) if why else None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=(),
    )
