"""Calls between the services of nodes: listings, digests, resynchronisation.

They use the same links as the protocol's messages, and give up at a deadline. Requests and answers
are in `wire/requests.py`.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from docstore.errors import DocstoreError, Unavailable
from docstore.runtime.links.peers import PeerLinks
from docstore.wire.link_messages import RpcReply, RpcRequest
from docstore.wire.requests import Request

Q = TypeVar("Q", bound=Request[Any])
R = TypeVar("R")
Handler = Callable[[Any], Awaitable[Any]]

WATCH_S = 0.1
"""Seconds between two checks that the called nodes are still there."""


class Rpc:
    """Calls the services of other nodes, and serves their calls."""

    def __init__(self, me: str, links: PeerLinks) -> None:
        self._me = me
        self._links = links
        self._served: dict[str, tuple[type[Request[Any]], Handler]] = {}
        self._open: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        """Number of a call without an answer -> (called node, future of the answer)."""
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, kind: type[Q], handler: Callable[[Q], Awaitable[Any]]) -> None:
        """Let `handler` answer requests of a kind from any node, with the R of their Request[R]."""
        self._served[kind.name] = (kind, handler)

    def reaches(self, peer: str) -> bool:
        return peer == self._me or self._links.is_linked(peer)

    async def call(self, peer: str, request: Request[R], timeout_s: float) -> R:
        """Return the answer of a node (or this one). Raises Unavailable when there is none."""
        if peer == self._me:
            _, handler = self._served[request.name]
            return cast(R, await handler(request))
        if not self._links.is_linked(peer):
            raise Unavailable(f"node {peer} is not connected")
        number = next(self._ids)
        future = asyncio.get_running_loop().create_future()
        self._open[number] = (peer, future)
        self._links.send(peer, RpcRequest(number, request.name, request.packed()))
        self._links.flush()
        try:
            async with asyncio.timeout(timeout_s):
                return cast(R, request.restored(await future))
        except TimeoutError:
            raise Unavailable(f"node {peer} did not answer in time") from None
        finally:
            del self._open[number]

    async def call_while(
        self, peer: str, request: Request[R], timeout_s: float, *, is_lost: Callable[[], bool]
    ) -> R | None:
        """Call a node; return None if it does not answer, or as soon as `is_lost` returns True."""
        asking = asyncio.ensure_future(self.call(peer, request, timeout_s))
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=WATCH_S)
                if not asking.done() and is_lost():
                    return None
            return asking.result()
        except Unavailable:
            return None
        finally:
            asking.cancel()

    def asked(self, peer: str, message: RpcRequest) -> None:
        """Serve a peer's call in a task of its own."""
        task = asyncio.get_running_loop().create_task(self._serve(peer, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def told(self, message: RpcReply) -> None:
        _, future = self._open.get(message.id, ("", None))
        if future is None or future.done():
            return
        if message.ok:
            future.set_result(message.result)
        else:
            future.set_exception(Unavailable(str(message.result)))

    def link_lost(self, peer: str) -> None:
        for asked, future in self._open.values():
            if asked == peer and not future.done():
                future.set_exception(Unavailable(f"the connection to node {peer} broke"))

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, peer: str, message: RpcRequest) -> None:
        if message.question not in self._served:
            told = RpcReply(message.id, False, f"node {self._me} does not know {message.question}")
        else:
            kind, handler = self._served[message.question]
            try:
                told = RpcReply(message.id, True, await handler(kind.unpacked(message.argument)))
            except DocstoreError as error:
                told = RpcReply(message.id, False, str(error))
        self._links.send(peer, told)
        self._links.flush()
