"""Settings of a node for streams: those that begin with `streams_`."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from docstore.model.settings import WEEK_S, integer, seconds
from docstore.streams.timing import (
    BatchMemory,
    ElectionTimes,
    StreamsConfig,
    TransferBounds,
    Upkeep,
)

STREAMS_KEYS = (
    "streams_fail_back_s", "streams_gather_s", "streams_confirm_s", "streams_tail_mb",
    "streams_retention_check_s",
)  # fmt: skip


def streams_config(settings: Mapping[str, Any]) -> StreamsConfig:
    """Return the streams settings as a value. Raises BadConfig, whose message is one line."""
    elections, transfers, upkeep = ElectionTimes(), TransferBounds(), Upkeep()
    tails_mb = integer(settings.get("streams_tail_mb", 64), "streams_tail_mb", 1, 65_536)
    said = partial(seconds, settings)
    fail_back_s = said("streams_fail_back_s", transfers.fail_back_s, least=0, most=WEEK_S)
    return StreamsConfig(
        elections=ElectionTimes(
            owner_timeout_s=said("owner_timeout_s", elections.owner_timeout_s),
            gather_s=said("streams_gather_s", elections.gather_s, most=60),
            confirm_s=said("streams_confirm_s", elections.confirm_s, most=60),
        ),
        transfers=TransferBounds(fail_back_s=fail_back_s),
        memory=BatchMemory(tails_bytes=tails_mb << 20),
        upkeep=Upkeep(retention_s=said("streams_retention_check_s", upkeep.retention_s)),
    )
