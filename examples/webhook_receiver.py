"""A receiver of webhooks that keeps the sum of all orders, while the node that calls it dies."""

import asyncio
import base64
import hmac
import secrets
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

from docstore.client import Client, LocalCluster

ORDERS, FRESH_S = 40, 600  # A call that is older is refused: it may be a replay.


class Receiver:
    """Answers the challenge, believes only what is signed, and takes each version once."""

    def __init__(self, secret: str) -> None:
        self._key = base64.b64decode(secret.removeprefix("whsec_"))
        self.amounts: dict[str, int] = {}
        self.has_all = asyncio.Event()
        self._versions: dict[str, int] = {}

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one call of a node."""
        body = await request.read()
        if not self._is_signed(request.headers, body):
            return web.Response(status=401)
        said = await request.json()
        if said["type"] == "challenge":
            return web.json_response({"challenge": said["challenge"]})
        for change in said["changes"]:
            link, version = change["documentSelfLink"], change["documentVersion"]
            if version > self._versions.get(link, -1):  # Else it came before: at least once.
                self._versions[link] = version
                self.amounts[link] = change["body"]["amount"]
        if len(self.amounts) == ORDERS:
            self.has_all.set()
        return web.Response(status=204)

    def _is_signed(self, head: Mapping[str, str], body: bytes) -> bool:
        name, when = head["webhook-id"], head["webhook-timestamp"]
        code = base64.b64encode(hmac.digest(self._key, f"{name}.{when}.".encode() + body, "sha256"))
        is_fresh = abs(time.time() - int(when)) < FRESH_S
        return is_fresh and hmac.compare_digest(f"v1,{code.decode()}", head["webhook-signature"])


async def main(cluster: LocalCluster) -> None:
    """Place orders while a webhook receives them."""
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    receiver = Receiver(secret)
    runner = web.ServerRunner(web.Server(receiver.take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/orders"
    async with Client(cluster.urls) as store:
        await store.declare("/orders")
        page = await store.subscribe("/orders", url, secret=secret, replay=True)
    owner = cluster.node(page["documentOwner"])
    async with Client([node.url for node in cluster.nodes if node is not owner]) as store:
        for n in range(ORDERS):
            await store.put(f"/orders/{n}", {"amount": n})
            if n == ORDERS // 2:
                print(f"{owner.name}, which delivers, is killed")
                cluster.kill(owner)
    await receiver.has_all.wait()
    print(f"{len(receiver.amounts)} orders, {sum(receiver.amounts.values())} in all")
    assert receiver.amounts == {f"/orders/{n}": n for n in range(ORDERS)}


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as keys:
        Path(keys.name).write_bytes(base64.b64encode(secrets.token_bytes(32)))
        settings = ["--callback-hosts", "http://127.0.0.1", "--callback-networks", "127.0.0.0/8"]
        with LocalCluster(3, settings=[*settings, "--callback-key-file", keys.name]) as group:
            asyncio.run(main(group))
