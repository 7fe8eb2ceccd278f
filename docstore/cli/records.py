"""The commands on records: produce from standard input, consume to standard output."""

import contextlib
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.terminal import (
    DEFAULT_URLS,
    AsJson,
    CommandFailed,
    Urls,
    show,
    talk,
)
from docstore.cli.topics import PANEL
from docstore.model.words import count

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from docstore.client import Client, ReadRecord

app = typer.Typer()
command = partial(app.command, rich_help_panel=PANEL)
READ_BYTES = 1 << 16


@command()
def produce(
    topic: str,
    key_field: Annotated[str, typer.Option(help="The member of each value that is its key.")] = "",
    partition: Annotated[int | None, typer.Option("-p", "--partition")] = None,
    acks: Annotated[str, typer.Option(help="committed, or leader.")] = "committed",
    batch: Annotated[int, typer.Option(min=1, help="Most records sent at once.")] = 500,
    name: Annotated[
        str, typer.Option("--id", help="A producer's name: whoever ran under it before is fenced.")
    ] = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Append lines of standard input: JSON as it is, other lines as texts."""

    async def work(client: "Client") -> dict[str, Any]:
        from collections import Counter

        number, sent = 0, []
        async with client.producer(topic, id=name, acks=acks, batch=batch) as producer:
            try:
                async for line in _lines():
                    value = _value(line)
                    number += 1
                    key = _key(value, key_field, number)
                    sent.append(await producer.send(key, value, partition=partition))
            finally:  # Also if it is stopped: what it has read is gone from the input.
                await producer.flush()
        found = Counter(each.result().partition for each in sent)
        return {"records": number, "partitions": {str(each): found[each] for each in sorted(found)}}

    page = talk(url, work)
    if as_json:
        show(page)
    else:
        partitions = count(len(page["partitions"]), "partition")
        typer.echo(f"{count(page['records'], 'record')} in {partitions}")


async def _lines() -> "AsyncIterator[bytes]":
    """Yield the lines of standard input as they come, without empty ones."""
    rest = b""
    while chunk := await _read():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
    if rest.strip():
        yield rest


async def _read() -> bytes:
    """Return what comes next; a stopped command does not wait for it. Raises OSError."""
    import asyncio
    from threading import Thread

    loop = asyncio.get_running_loop()
    found: asyncio.Queue[bytes | OSError] = asyncio.Queue()

    def read() -> None:
        try:
            chunk: bytes | OSError = os.read(0, READ_BYTES)
        except OSError as error:
            chunk = error
        with contextlib.suppress(RuntimeError):  # The loop has ended meanwhile.
            loop.call_soon_threadsafe(found.put_nowait, chunk)

    Thread(target=read, daemon=True).start()
    chunk = await found.get()
    if isinstance(chunk, OSError):
        raise chunk
    return chunk


def _value(line: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return line.decode("utf-8", "replace").rstrip("\r\n")


def _key(value: Any, field: str, number: int) -> str | None:
    if not field:
        return None
    if not isinstance(value, dict) or field not in value:
        raise CommandFailed(f"line {number} has no member {field!r} to be its key")
    key = value[field]
    return key if isinstance(key, str) else _text(key)


@command()
def consume(
    topic: str,
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", help="One; none: all of them.")
    ] = None,
    since: Annotated[
        str, typer.Option("--from", help="An offset, beginning, end, end-N, or a time.")
    ] = "beginning",
    isolation: Annotated[str, typer.Option(help="committed, or uncommitted.")] = "committed",
    group: Annotated[
        str, typer.Option("--group", "-g", help="Share it with others, and go on where they left.")
    ] = "",
    once: Annotated[bool, typer.Option("--once", "-d", help="Only what is there already.")] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Print values as they come, one a line; with --json all that is known of each record."""
    if group and (once or partition is not None):
        raise typer.BadParameter("a group reads all partitions, and for ever")

    async def follow(client: "Client") -> None:
        if group:
            async with client.group(group, [topic], since=since, isolation=isolation) as reading:
                await write(reading.records())
        else:
            await write(
                client.consume(
                    topic, partition=partition, since=since, isolation=isolation, follow=not once
                )
            )

    async def write(records: "AsyncGenerator[ReadRecord, None]") -> None:
        async with contextlib.aclosing(records):  # Also if nothing more can be written.
            async for record in records:
                sys.stdout.write(_line(record) if as_json else _text(record.value) + "\n")
                sys.stdout.flush()

    with contextlib.suppress(KeyboardInterrupt):
        talk(url, follow)


def _line(record: "ReadRecord") -> str:
    from base64 import b64encode

    def plain(value: Any) -> Any:
        return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value

    shown = {
        "partition": record.partition, "offset": record.offset, "key": plain(record.key),
        "value": plain(record.value),
        "headers": {name: plain(value) for name, value in record.headers.items()},
        "timestampMicros": record.timestamp_us, "epoch": record.epoch,
    }  # fmt: skip
    return _text(shown) + "\n"


def _text(value: Any) -> str:
    import orjson

    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else orjson.dumps(value).decode()
