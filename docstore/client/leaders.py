"""Leaders of a topic's partitions, so that clients send requests to them directly.

The addresses are refreshed in the background when a leader moves. Meanwhile requests go to any
other node, which forwards them.
"""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson

from docstore.client.errors import BadAddress, ClientError, RequestFailed, Unanswered, Unreachable
from docstore.client.requests import Requests

GROUP = "/core/node-groups/default"
PAUSE_S = (0.02, 0.25)
"""First and longest pause between two attempts."""
ATTEMPT_S = 1.5
"""Seconds to wait for a node's answer; after that another node may lead."""
AVOIDED_S = 3.0
"""Seconds for which a node that did not answer is skipped if there is another.

By then its partitions have other leaders.
"""


class Leaders:
    """Last known leaders of the partitions of one topic."""

    def __init__(self, client: Requests, topic: str) -> None:
        self._client = client
        self.path = f"/core/streams/{quote(topic, safe='')}"
        self.partitions = 0
        self.batch_bytes = 0
        self._addresses: dict[str, str] = {}
        self._urls: dict[int, str] = {}
        self._avoided: dict[str, float] = {}
        """URL -> time until which other nodes are preferred."""
        self._asked = 0
        self._looking: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Read the topic from any node.

        Raises RequestFailed (404 for an unknown topic), Unreachable.
        """
        client = self._client
        self._take(*await asyncio.gather(client.json("GET", self.path), client.json("GET", GROUP)))

    def _take(self, page: Any, group: Any) -> None:
        self.partitions, self.batch_bytes = len(page["partitions"]), page["batchBytesMax"]
        addresses = {each["id"]: each.get("address", "") for each in group["members"]}
        self._urls = {
            each["partition"]: addresses.get(each["leader"], "").rstrip("/")
            for each in page["partitions"]
        }

    def records(self, partition: int) -> str:
        """Return the path of a partition's records."""
        return f"{self.path}/partitions/{partition}/records"

    async def ask(
        self,
        method: str,
        partition: int,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        query: str = "",
        wait_s: float = 0.0,
        timeout_s: float,
    ) -> tuple[Mapping[str, str], bytes]:
        """Return headers and body of the answer to a request about a partition's records.

        Only for requests that may be repeated: it repeats them after 503, 504 and lost answers,
        until `timeout_s` is over. wait_s: how long a node may wait for records before it answers.
        Raises RequestFailed, Unanswered, Unreachable. The outcome is unknown if that of any attempt
        is.
        """
        loop = asyncio.get_running_loop()
        deadline, pause_s = loop.time() + timeout_s, PAUSE_S[0]
        path = self.records(partition) + query
        is_unknown = False
        limit = {"Docstore-Timeout-Ms": str(int(ATTEMPT_S * 1000))}
        while True:
            url = self._url(partition)
            try:
                _, answered, content = await self._client.once(
                    url, method, path, body, {**limit, **headers}, timeout_s=ATTEMPT_S + wait_s
                )
            except RequestFailed as error:
                if is_unknown:
                    error.outcome = "unknown"
                if error.status not in (503, 504):
                    raise
                is_unknown = error.outcome == "unknown"
                problem: ClientError = error
            except (Unanswered, Unreachable) as error:
                self._avoid(url)
                is_unknown = is_unknown or isinstance(error, Unanswered)
                problem = error
            else:
                if url != self._urls.get(partition):
                    self._look_again()
                return answered, content
            if loop.time() + pause_s > deadline:
                raise problem
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S[1])
            self._look_again()

    async def close(self) -> None:
        """Stop refreshing."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def _look_again(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """Read the present leaders from any node."""
        url = self._any_url()
        pages = [
            self._client.once(url, "GET", path, timeout_s=ATTEMPT_S) for path in (self.path, GROUP)
        ]
        try:
            found = await asyncio.gather(*pages)
        except (RequestFailed, BadAddress):
            return  # The next failure starts a refresh again.
        except (Unreachable, Unanswered):
            self._avoid(url)
        else:
            self._take(*(orjson.loads(content) for _, _, content in found))

    def _url(self, partition: int) -> str:
        """Return the leader's address if it is known and not avoided, else that of any node."""
        url = self._urls.get(partition)
        return url if url and not self._is_avoided(url) else self._any_url()

    def _any_url(self) -> str:
        """Return the next node in turn, if possible one that is not avoided."""
        urls = [url for url in self._client.urls if not self._is_avoided(url)] or self._client.urls
        self._asked += 1
        return urls[self._asked % len(urls)]

    def _avoid(self, url: str) -> None:
        self._avoided[url] = asyncio.get_running_loop().time() + AVOIDED_S

    def _is_avoided(self, url: str) -> bool:
        return self._avoided.get(url, 0.0) > asyncio.get_running_loop().time()
