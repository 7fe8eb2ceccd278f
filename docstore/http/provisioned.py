"""Wait for the partitions of a topic that was created or got more of them."""

import asyncio

from docstore.http.backend import Backend
from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.streams.topic import Provision

POLL_S = 0.02


async def provisioned(backend: Backend, answer: Answer, wait_s: float) -> Answer:
    """Return the topic's document once its partitions exist, 202 if the time ends first."""
    deadline = asyncio.get_running_loop().time() + wait_s
    while answer.row is not None:
        resolution = json.load(answer.row.state)["resolution"]
        if resolution == Provision.PROVISIONED:
            return answer._replace(status=201)
        left_s = deadline - asyncio.get_running_loop().time()
        if resolution != Provision.PENDING or left_s <= POLL_S:
            break
        await asyncio.sleep(POLL_S)
        found = await backend.submit(Operation(verb="GET", link=answer.row.link), left_s)
        if not found.is_success:
            break
        answer = found
    return answer._replace(status=202)
