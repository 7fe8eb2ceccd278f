"""The commands on records: produce standard input, consume to standard output."""

import contextlib
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.completing import names, words
from docstore.cli.tables import tell_waiting
from docstore.cli.terminal import (
    DEFAULT_URLS,
    AsJson,
    CommandFailed,
    Urls,
    show,
    talk,
    talk_on,
    tell_reading,
)
from docstore.cli.topics import PANEL, Topic
from docstore.model.words import count

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from docstore.client import Client, ReadRecord

app = typer.Typer()
command = partial(app.command, rich_help_panel=PANEL)
READ_BYTES = 1 << 16
Tombstones = Annotated[
    bool,
    typer.Option("--tombstones", help="Take each line for a key, and append its tombstone."),
]


@command()
def produce(
    topic: Topic,
    key_field: Annotated[
        str, typer.Option(help="Member of each value to use as the record's key.")
    ] = "",
    partition: Annotated[
        int | None,
        typer.Option("-p", "--partition", help="Append to this one; else chosen by the key."),
    ] = None,
    acks: Annotated[
        str,
        typer.Option(
            help="Acknowledgement to wait for: committed, or leader.",
            autocompletion=words("committed", "leader"),
        ),
    ] = "committed",
    tombstones: Tombstones = False,
    batch: Annotated[int, typer.Option(min=1, help="Most records in one request.")] = 500,
    name: Annotated[
        str,
        typer.Option("--id", help="Name of the producer; an earlier one of this name is fenced."),
    ] = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Append each line of standard input as a record: parsed if it is JSON, else as a text."""

    async def work(client: "Client") -> dict[str, Any]:
        from collections import Counter

        number, sent = 0, []
        async with client.producer(topic, id=name, acks=acks, batch=batch) as producer:
            tell_reading(f"{'keys' if tombstones else 'records'}, one a line,")
            try:
                async for line in _lines():
                    number += 1
                    key, value = _record(line, key_field, number, deletes=tombstones)
                    sent.append(await producer.send(key, value, partition=partition))
            finally:  # Also when the command is stopped: the lines read are gone from the input.
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
    """Yield the lines of standard input as they arrive, without empty ones."""
    rest = b""
    while chunk := await _read():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
    if rest.strip():
        yield rest


async def _read() -> bytes:
    """Return the next chunk of input, read in a thread so that a signal can stop the command.

    Raises OSError.
    """
    import asyncio
    from threading import Thread

    loop = asyncio.get_running_loop()
    found: asyncio.Queue[bytes | OSError] = asyncio.Queue()

    def read() -> None:
        try:
            chunk: bytes | OSError = os.read(0, READ_BYTES)
        except OSError as error:
            chunk = error
        with contextlib.suppress(RuntimeError):  # The loop may have ended meanwhile.
            loop.call_soon_threadsafe(found.put_nowait, chunk)

    Thread(target=read, daemon=True).start()
    chunk = await found.get()
    if isinstance(chunk, OSError):
        raise chunk
    return chunk


def _record(
    line: bytes, field: str, number: int, *, deletes: bool
) -> tuple[str | None, bytes | None]:
    """Return the key and the value of a line; deletes: without a value, as a tombstone."""
    import orjson

    if deletes and not field:
        return _decoded(line), None
    value = _value(line)
    return _key(value, field, number), None if deletes else orjson.dumps(value)


def _value(line: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _decoded(line)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _key(value: Any, field: str, number: int) -> str | None:
    if not field:
        return None
    if not isinstance(value, dict) or field not in value:
        raise CommandFailed(
            f"line {number} has no member {field!r} for its key; add it, or omit --key-field"
        )
    key = value[field]
    return key if isinstance(key, str) else _text(key)


From = Annotated[
    str,
    typer.Option(
        "--from",
        help="Start: an offset, beginning, end, end-N, or a time.",
        autocompletion=words("beginning", "end"),
    ),
]
Isolation = Annotated[
    str,
    typer.Option(
        help="Records to read: committed, or uncommitted.",
        autocompletion=words("committed", "uncommitted"),
    ),
]
GroupName = Annotated[
    str,
    typer.Option(
        "--group",
        "-g",
        help="Read as a member of this group, from the offsets that it has committed.",
        autocompletion=names("/core/groups"),
    ),
]


@command()
def consume(
    topic: Topic,
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", help="Read only this one; else all.")
    ] = None,
    since: From = "beginning",
    isolation: Isolation = "committed",
    group: GroupName = "",
    once: Annotated[
        bool,
        typer.Option(
            "--once", "--until-end", "-d", help="Stop after the records that exist already."
        ),
    ] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Print the value of each record, one per line; with --json, the whole record."""
    if group and partition is not None:
        raise typer.BadParameter("--group reads all partitions: leave out --partition")

    async def follow(client: "Client") -> None:
        if group:
            async with client.group(group, [topic], since=since, isolation=isolation) as reading:
                await write(reading.records(until_end=once))
        else:
            await write(
                client.consume(
                    topic, partition=partition, since=since, isolation=isolation, follow=not once
                )
            )

    async def write(records: "AsyncGenerator[ReadRecord, None]") -> None:
        async with contextlib.aclosing(records):  # Even if standard output is closed.
            async for record in records:
                sys.stdout.write(_line(record) if as_json else _text(record.value) + "\n")
                sys.stdout.flush()

    if not once:
        tell_waiting(f"records of {topic}")
    talk_on(url, follow)


def _line(record: "ReadRecord") -> str:
    from base64 import b64encode

    def plain(value: Any) -> Any:
        return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value

    value = {"tombstone": True} if record.raw_value is None else {"value": plain(record.value)}
    shown = {
        "partition": record.partition, "offset": record.offset, "key": plain(record.key), **value,
        "headers": {name: plain(value) for name, value in record.headers.items()},
        "timestampMicros": record.timestamp_us, "epoch": record.epoch,
    }  # fmt: skip
    return _text(shown) + "\n"


def _text(value: Any) -> str:
    import orjson

    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else orjson.dumps(value).decode()
