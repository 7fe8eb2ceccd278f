"""Flights by an unmodified producer and unmodified consumers of Kafka: line K1."""

import asyncio
import functools
import json
import time

import confluent_kafka

from docstore.client.producer import Position
from tests.chaos.lines.flights import RATE, STEP, TOPIC, Flown, Mark, flights
from tests.chaos.lines.groups import GROUP, killed_together
from tests.chaos.lines.stage import Seen, Stage, line

EVERY_S = 5.0
SESSION_MS, COMMIT_MS = 3_000, 500


@line("K1", "flights by confluent-kafka with idempotence, read by a group of three of aiokafka,"
            " while a member and a partition's leader are killed every 5 s for 3 minutes: none"
            " lost, none twice but what was not committed, in order by key, over HTTP the same",
            size=3, kafka=True)  # fmt: skip
async def members_killed(stage: Stage) -> Seen:
    """Kill members while members and producer are those of Kafka."""

    async def produce(_: list[str], flown: Flown) -> None:
        await asyncio.to_thread(_produce, stage.kafka, flown)

    words = [stage.kafka, GROUP, TOPIC, str(SESSION_MS), str(COMMIT_MS)]
    module = "tests.chaos.kafka.member"
    return await killed_together(stage, module, words, every_s=EVERY_S, produce=produce)


def _produce(bootstrap: str, flown: Flown) -> None:
    """Produce all flights, again and again."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2}
    )
    while not flown.is_over:
        number, flown.rounds = flown.rounds, flown.rounds + 1
        begun = time.monotonic()
        flown.starts.append((begun, begun))
        for index, flight in enumerate(flights()):
            mark = (number, index)
            producer.produce(
                TOPIC, json.dumps({**flight, "mark": mark}), flight["origin"],
                on_delivery=functools.partial(_delivered, flown, mark),
            )  # fmt: skip
            while (ahead_s := begun + index // STEP * STEP / RATE - time.monotonic()) > 0:
                producer.poll(ahead_s)
        producer.flush()


def _delivered(
    flown: Flown, mark: Mark, error: object | None, message: confluent_kafka.Message
) -> None:
    if error is not None:
        flown.wrong.append(f"{mark} was given up: {error}")
        return
    place = Position(message.partition(), message.offset())
    flown.places[mark] = place
    flown.acks[place.partition].append(time.monotonic())
