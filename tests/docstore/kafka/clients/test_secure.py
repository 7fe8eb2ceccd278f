"""Clients that log in over TLS to three nodes: they may do exactly what their user may."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer

from docstore.client import Client
from docstore.client.local import LocalCluster
from tests.docstore.access.tokens import digest
from tests.docstore.kafka.clients.listening import listen
from tests.docstore.kafka.clients.tools import PATIENCE_S
from tests.docstore.runtime.tls.papers import group_of

pytestmark = [
    pytest.mark.thorough,
    # aiokafka leaves connections open when a node refuses its user.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
USERS = {"admin": '"/" = "admin"', "writer": '"/core/streams/clicks" = "write"'}


class Secure(NamedTuple):
    """Nodes with users, each with its name as its token."""

    group: LocalCluster
    bootstrap: str
    ca: Path


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    certs = group_of(folder / "certs", ("n1", "n2", "n3"))
    file, token = folder / "access.toml", folder / "token"
    file.write_text("\n".join(
        f'[roles.{name}]\n{grant}\n[users.{name}]\ntokens = ["{digest(name)}"]\nroles = ["{name}"]'
        for name, grant in USERS.items()
    ))  # fmt: skip
    token.write_text("admin")
    token.chmod(0o600)
    settings = ("--access-file", str(file), "--token-file", str(token))
    group = LocalCluster(3, folder / "nodes", settings, token="admin", certs=certs)
    with listen(group) as bootstrap, group:
        asyncio.run(_create(group))
        yield Secure(group, bootstrap, certs / "ca.pem")


async def _create(group: LocalCluster) -> None:
    async with Client(group.urls, token="admin", ssl=group.ssl) as client:
        for name in ("clicks", "secrets"):
            await client.json("POST", "/core/streams", {"name": name, "replicationFactor": 3})


def kcat(secure: Secure, user: str, token: str, topic: str) -> None:
    """Append a record with kcat."""
    settings = {
        "security.protocol": "sasl_ssl", "ssl.ca.location": str(secure.ca),
        "sasl.mechanisms": "PLAIN", "sasl.username": user, "sasl.password": token,
        "message.timeout.ms": "3000",
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    ended = subprocess.run(
        ["kcat", "-b", secure.bootstrap, "-P", "-t", topic, *words],
        input=b"kcat", capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    if ended.returncode:
        raise PermissionError(ended.stderr.decode())


def confluent(secure: Secure, user: str, token: str, topic: str) -> None:
    """Append a record with confluent-kafka."""
    failed: list[object] = []
    producer = confluent_kafka.Producer({
        "bootstrap.servers": secure.bootstrap, "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(secure.ca), "sasl.mechanisms": "PLAIN", "sasl.username": user,
        "sasl.password": token, "message.timeout.ms": 3000, "error_cb": failed.append,
        "log_level": 2,
    })  # fmt: skip
    producer.produce(
        topic, b"confluent", on_delivery=lambda error, _: failed.append(error) if error else None
    )
    producer.flush(PATIENCE_S)
    if failed:
        raise PermissionError(*failed)


def aiokafka(secure: Secure, user: str, token: str, topic: str) -> None:
    """Append a record with aiokafka."""

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=secure.bootstrap, security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=secure.ca), sasl_mechanism="PLAIN",
            sasl_plain_username=user, sasl_plain_password=token,
        )  # fmt: skip
        try:
            await producer.start()
            await asyncio.wait_for(producer.send_and_wait(topic, b"aiokafka"), PATIENCE_S)
        finally:
            await producer.stop()  # `async with` leaves a producer open that cannot start.

    asyncio.run(produce())


KAFKA_PYTHON = """
import sys, kafka
bootstrap, ca, user, token, topic = sys.argv[1:]
producer = kafka.KafkaProducer(
    bootstrap_servers=bootstrap.split(","), security_protocol="SASL_SSL", ssl_cafile=ca,
    sasl_mechanism="PLAIN", sasl_plain_username=user, sasl_plain_password=token,
    max_block_ms=3000, bootstrap_timeout_ms=3000,
)
producer.send(topic, b"kafka_python").get(10)
"""


def kafka_python(secure: Secure, user: str, token: str, topic: str) -> None:
    """Append a record with kafka-python, which leaves sockets open when it cannot log in."""
    words = ("-W", "ignore", "-c", KAFKA_PYTHON, secure.bootstrap, str(secure.ca), user, token)
    ended = subprocess.run(
        [sys.executable, *words, topic], capture_output=True, timeout=PATIENCE_S, check=False
    )
    if ended.returncode:
        raise PermissionError(ended.stderr.decode())


Append = Callable[[Secure, str, str, str], None]


@pytest.mark.parametrize("append", [kcat, confluent, aiokafka, kafka_python])
def test_a_user_appends_only_with_its_grant(secure: Secure, append: Append) -> None:
    append(secure, "writer", "writer", "clicks")
    with pytest.raises(Exception, match=r"(?i)topic.?authori[sz]ation.?failed"):
        append(secure, "writer", "writer", "secrets")
    with pytest.raises(Exception, match=r"(?i)(authentication|bootstrap|connect)"):
        append(secure, "writer", "admin", "clicks")
    assert append.__name__ in asyncio.run(_values(secure.group, "clicks"))
    assert asyncio.run(_values(secure.group, "secrets")) == []


async def _values(group: LocalCluster, topic: str) -> list[Any]:
    async with Client(group.urls, token="admin", ssl=group.ssl) as client:
        return [each.value.decode() async for each in client.consume(topic, follow=False)]
