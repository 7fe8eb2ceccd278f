"""Line X06: URLs that would make a node call hosts that only it can reach. No call is made."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography.fernet import Fernet, MultiFernet

from docstore.errors import BadConfig
from docstore.maintenance.webhooks import calling
from docstore.maintenance.webhooks.calling import Caller
from docstore.runtime.tls.authority import make_authority, make_certificate
from docstore.subscriptions.sealing import SecretSeal
from docstore.subscriptions.settings import CallbackSettings, callback_settings
from docstore.subscriptions.signing import secret_of
from docstore.subscriptions.targets import CallbackRefused, Targets
from tests.docstore.runtime.tls.papers import believing
from tests.docstore.subscriptions.receiver import Receiver, receiving

SECRET = secret_of(bytes(32))
ANY_HOST = "*, http://*"
"""The least strict setting: any host, in plain text too. No network is allowed."""
LINK = "/core/subscriptions/1"
SYSTEM = ssl.create_default_context()

FORBIDDEN = """
127.0.0.1 127.0.0.2 127.255.255.254 0.0.0.0 0.0.0.1 10.0.0.1 10.255.255.255 100.64.0.1
100.100.100.200 169.254.169.254 169.254.0.1 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1
192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
255.255.255.255 168.63.129.16
:: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 fe80::1 fec0::1
fc00::1 fd00:ec2::254 ff02::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: 64:ff9b::127.0.0.1
64:ff9b::a9fe:a9fe 64:ff9b:1::1 3fff::1 2001:0:4136:e378:8000:63bf:80ff:fffe
""".split()
"""Loopback, private, link-local, metadata, shared, documentation and multicast addresses, also
inside IPv6 addresses."""

PUBLIC = "8.8.8.8 93.184.216.34 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::8.8.8.8".split()

_ODD = """
http://2130706433/ http://0x7f000001/ http://0177.0.0.1/ http://127.1/ http://0/
http://127.0.0.1./ http://localhost/ http://LOCALHOST:80/ http://[::1]/ http://[::ffff:7f00:1]/
http://[0:0:0:0:0:ffff:127.0.0.1]/ https://[::ffff:10.0.0.1]/ https://169.254.169.254/latest
http://①②⑦.⓪.⓪.①/ http://127。0。0。1/ http://user:password@example.com/
http://example.com@127.0.0.1/ http://127.0.0.1#@example.com/ http://example.com\\@127.0.0.1/
http:\\\\127.0.0.1/ http:/127.0.0.1/ //127.0.0.1/ file:///etc/passwd gopher://127.0.0.1:70/_x
ftp://127.0.0.1/ dict://127.0.0.1:11211/ data:text/plain,x javascript:0 http:// https://:80/
http://127.0.0.1:0/ http://127.0.0.1:99999/ http://exam%70le.com%2f@127.0.0.1/
http://[fe80::1%25lo]/ http://127.0.0.1:80:80/ http://[::1/ jar:http://127.0.0.1!/ /films x
https://xn--a/ https://xn--a.example/ https://xn--/
""".split()
WRITTEN = [
    *_ODD, "", "http://127.0.0.1/ HTTP/1.1", "http://127.0.0.1/\r\nX: y", "http://127.0.0.1\t/",
    " http://127.0.0.1/", "http://ex\x00ample.com/", f"http://127.0.0.1/{'x' * 2048}",
]  # fmt: skip


class Names(AbstractResolver):
    """Resolves each name to addresses of the test, one answer after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(
                hostname=host, host=each, port=port, proto=0, flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if ":" in each else socket.AF_INET,
            )
            for each in answer
        ]  # fmt: skip

    async def close(self) -> None:
        return


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets every address that a connection was begun to."""
    seen: list[Any] = []
    connect = asyncio.selector_events.BaseSelectorEventLoop.sock_connect

    async def noted(self: Any, sock: socket.socket, address: Any) -> None:
        seen.append(address[0])
        await connect(self, sock, address)

    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", noted)
    return seen


def caller(*networks: str, names: Names | None = None, tls: ssl.SSLContext | None = None) -> Caller:
    said = {"callback_hosts": ANY_HOST, "callback_networks": networks, "callback_key_file": "k"}
    seal = SecretSeal(MultiFernet([Fernet(Fernet.generate_key())]))
    return Caller(Targets(callback_settings(said)), seal, resolver=names, tls=tls or SYSTEM)


@pytest.mark.parametrize("address", FORBIDDEN)
async def test_a_forbidden_address_is_refused(address: str, connected: list[Any]) -> None:
    """Refuse it in the URL and in the answer for a name, alone or with others."""
    assert not Targets(CallbackSettings()).allow(address)
    host = f"[{address}]" if ":" in address else address
    names = Names([address], [address, "::1"])
    calls = caller(names=names)
    for url in (f"http://{host}/", f"https://{host}:8443/x", "http://hook.example/", "https://b/"):
        with pytest.raises(CallbackRefused):
            await calls.prove(LINK, url, SECRET)
    assert names.asked == 2
    assert connected == []
    await calls.stop()


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    assert Targets(CallbackSettings()).allow(address)


@pytest.mark.parametrize("url", WRITTEN)
async def test_an_odd_spelling_of_a_url_is_refused(url: str, connected: list[Any]) -> None:
    calls = caller()
    with pytest.raises(CallbackRefused):
        await calls.prove(LINK, url, SECRET)
    assert connected == []
    await calls.stop()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def test_a_name_that_resolves_differently_at_the_call_is_refused(
    receiver: Receiver, connected: list[Any]
) -> None:
    """Refuse rebinding: an allowed address at the challenge, and another one at the call."""
    url = receiver.url.replace("127.0.0.1", "hook.example")
    names = Names(["127.0.0.1"], ["127.0.0.3"], ["127.0.0.3", "127.0.0.1"])
    calls = caller("127.0.0.1/32", names=names)
    await calls.prove(LINK, url, SECRET)
    await calls.stop()  # It closes the open connection.
    calls = caller("127.0.0.1/32", names=names)
    sealed = calls.seal.seal(LINK, SECRET)
    called = await calls.deliver(LINK, url, sealed, b"{}")
    assert (called.status, "not allowed" in called.why) == (0, True)
    body = b'{"type": "changes", "changes": []}'
    assert (await calls.deliver(LINK, url, sealed, body)).status == 204
    await calls.stop()
    assert set(connected) == {"127.0.0.1"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status: int, connected: list[Any]) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": "http://127.0.0.3:1/"})

    async with serving(answer) as url:
        calls = caller("127.0.0.0/8")
        with pytest.raises(CallbackRefused, match=f"it answers {status}"):
            await calls.prove(LINK, url, SECRET)
        await calls.stop()
    assert connected == ["127.0.0.1"]


@asynccontextmanager
async def serving(answer: Any, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run a server with one answer; yield its URL."""
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def test_an_answer_is_bounded() -> None:
    behind = calling.ANSWER_BYTES_MAX

    async def long(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        return web.Response(body=body + b" " * (behind - len(body)))

    async with serving(long) as url:
        calls = caller("127.0.0.0/8")
        await calls.prove(LINK, url, SECRET)
        behind += 1
        with pytest.raises(CallbackRefused, match="with the text of the challenge"):
            await calls.prove(LINK, url, SECRET)
        await calls.stop()


async def test_a_compressed_answer_is_not_decompressed() -> None:
    async def packed(request: web.BaseRequest) -> web.StreamResponse:
        response = web.Response(body=await request.read())
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with serving(packed) as url:
        calls = caller("127.0.0.0/8")
        with pytest.raises(CallbackRefused, match="with the text of the challenge"):
            await calls.prove(LINK, url, SECRET)
        await calls.stop()


async def test_a_late_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "TIMEOUT_S", 0.1)
    is_over = asyncio.Event()

    async def silent(request: web.BaseRequest) -> web.StreamResponse:
        await is_over.wait()
        return web.Response()

    async with serving(silent) as url:
        calls = caller("127.0.0.0/8")
        with pytest.raises(CallbackRefused, match="no answer within"):
            await calls.prove(LINK, url, SECRET)
        await calls.stop()
        is_over.set()


async def test_the_headers_of_a_call_do_not_describe_the_node() -> None:
    seen: list[dict[str, str]] = []

    async def noted(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(dict(request.headers))
        body = await request.json()
        return web.json_response(body, headers={"Set-Cookie": "a=b; Path=/"})

    async with serving(noted) as url:
        calls = caller("127.0.0.0/8")
        for _ in range(2):
            await calls.prove(LINK, url, SECRET)
        await calls.stop()
    assert seen[0].keys() == seen[1].keys() == {
        "Host", "Content-Type", "Content-Length", "Accept", "User-Agent",
        "webhook-id", "webhook-timestamp", "webhook-signature",
    }  # fmt: skip


async def test_https_uses_the_host_of_the_url(tmp_path: Path) -> None:
    make_authority(tmp_path, "hooks", 30)
    make_certificate(tmp_path, ["hook"], ["hook.example"], 30)
    named: list[str | None] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(await request.json())

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "hook.pem", tmp_path / "hook-key.pem")
    tls.sni_callback = lambda _, name, __: named.append(name)
    async with serving(answer, tls) as url:
        port = url.rpartition(":")[2]
        calls = caller("127.0.0.0/8", names=Names(["127.0.0.1"]), tls=believing(tmp_path))
        await calls.prove(LINK, f"https://hook.example:{port}", SECRET)
        with pytest.raises(CallbackRefused, match="certificate"):
            await calls.prove(LINK, f"https://other.example:{port}", SECRET)
        await calls.stop()
        strangers = caller("127.0.0.0/8", names=Names(["127.0.0.1"]))
        with pytest.raises(CallbackRefused, match="certificate"):
            await strangers.prove(LINK, f"https://hook.example:{port}", SECRET)
        await strangers.stop()
    assert named == ["hook.example", "other.example", "hook.example"]


@pytest.mark.parametrize(
    ("hosts", "url", "may"),
    [
        ("hook.example", "https://hook.example/x", True),
        ("hook.example", "https://HOOK.example:8443/x?y=z", True),
        ("hook.example", "https://hook.example./x", True),
        ("hook.example", "http://hook.example/x", False),
        ("http://hook.example", "https://hook.example/x", False),
        ("hook.example", "https://a.hook.example/", False),
        ("*.example", "https://a.b.example/", True),
        ("*.example", "https://example/", False),
        ("*.example", "https://aexample/", False),
        ("*", "https://anything/", True),
        ("*", "http://anything/", False),
        ("a.example, http://127.0.0.1", "http://127.0.0.1:9/", True),
        ("http://[::1]", "http://[::1]:9/", True),
        ("", "https://anything/", False),
    ],
)
def test_host_patterns_select_urls(hosts: str, url: str, may: bool) -> None:
    targets = Targets(callback_settings({"callback_hosts": hosts, "callback_key_file": "k"}))
    if may:
        targets.url(url)
    else:
        with pytest.raises(CallbackRefused):
            targets.url(url)


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"callback_hosts": "a.example"}, "callback_key_file"),
        ({"callback_hosts": "a.example:80", "callback_key_file": "k"}, "callback_hosts"),
        ({"callback_hosts": "https://a.example/x", "callback_key_file": "k"}, "callback_hosts"),
        ({"callback_hosts": "a.*.example", "callback_key_file": "k"}, "callback_hosts"),
        ({"callback_hosts": "ftp://a.example", "callback_key_file": "k"}, "callback_hosts"),
        ({"callback_networks": "10.0.0.1/8"}, "callback_networks"),
        ({"callback_networks": "local"}, "callback_networks"),
        ({"callback_retry_s": "soon"}, "callback_retry_s"),
    ],
)
def test_invalid_callback_settings_are_refused(settings: dict[str, str], wrong: str) -> None:
    with pytest.raises(BadConfig, match=wrong):
        callback_settings(settings)
