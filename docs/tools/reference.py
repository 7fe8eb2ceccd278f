"""Hooks of mkdocs: reference pages, made of the code that they describe."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer
import typer.cli
from mkdocs.structure.files import File, Files

from docstore.cli.app import app
from docstore.cli.serve_flags import parser
from docstore.http.openapi.document import described

Json = Mapping[str, Any]
MODULES = {
    "docstore.client": "The client",
    "docstore.service": "Services",
    "docstore.task_service": "Services: tasks",
    "docstore.model_service": "Services: Pydantic models",
    "docstore.service_tester": "Services: the tester",
    "gossip": "Membership, without a store",
}
HANDED_ON = {"serve", "spark"}
"""Commands whose help another program prints."""


def on_files(files: Files, config: Any) -> Files:
    """Add a page for commands, one for HTTP, one for Python."""
    pages = {"commands": commands(), "http": http(), "python": python()}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def commands() -> str:
    """Return the help of all commands, as Typer tells it."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    for name in HANDED_ON:
        del group.commands[name]
    _tell_whole(group)
    context = typer.Context(group, info_name="docstore")
    text = typer.cli.get_docs_for_click(obj=group, ctx=context, name="docstore", title="Commands")
    serve = parser()
    serve.prog = "docstore serve"
    return (
        f"{text}\n## `docstore serve`\n\n```text\n{serve.format_help()}```\n\n"
        "## `docstore spark`\n\nSee [the pipeline on Spark](../pipeline.md).\n"
    )


def _tell_whole(group: typer.core.TyperGroup) -> None:
    """Have a list of commands show the first sentence of each, not its first 45 characters."""
    for command in group.commands.values():
        command.short_help = (command.help or "").partition("\n\n")[0].replace("\n", " ")
        if isinstance(command, typer.core.TyperGroup):
            _tell_whole(command)


def python() -> str:
    """Return a page in which mkdocstrings sets what the packages export."""
    lines = ["# Python"]
    for module, title in MODULES.items():
        lines += ["", f"## {title}", "", f"`{module}` exports:"]
        for name in importlib.import_module(module).__all__:
            lines += ["", f"::: {module}.{name}"]
    return "\n".join(lines)


def http() -> str:
    """Return all paths and schemas of the OpenAPI document that nodes serve."""
    document = described([], lambda _path: True)
    lines = ["# HTTP", "", document["info"]["description"], ""]
    lines += ["Every node serves this as OpenAPI 3.1 at `/core/openapi.json`.", ""]
    for tag in document["tags"]:
        lines += [f"## {tag['name']}", "", tag.get("description", ""), ""]
        for path, item in document["paths"].items():
            for method in ("get", "post", "put", "patch", "delete"):
                if tag["name"] in item.get(method, {}).get("tags", ()):
                    lines += _operation(document, f"{method.upper()} {path}", item, item[method])
    lines += ["## Schemas", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += [f"### {name}", "", schema.get("description", ""), "", *_members(schema), ""]
    return "\n".join(lines)


def _operation(document: Json, title: str, item: Json, operation: Json) -> Iterator[str]:
    yield from (f"### `{title}`", "", f"{operation.get('summary', '')}.", "")
    yield from (operation.get("description", ""), "")
    named = [_found(document, each) for each in _parameters(item, operation)]
    if named:
        yield from ("| parameter | in | meaning |", "|---|---|---|")
        for each in named:
            yield f"| `{each['name']}` | {each['in']} | {_cell(each.get('description', ''))} |"
        yield ""
    taken = _found(document, operation.get("requestBody", {})).get("content", {})
    if taken:
        yield from ("Body: " + ", ".join(_media(*each) for each in taken.items()) + ".", "")
    yield from ("| answer | meaning | content |", "|---|---|---|")
    for status, answer in operation["responses"].items():
        told = _found(document, answer)
        content = ", ".join(_media(*each) for each in told.get("content", {}).items())
        yield f"| {status} | {_cell(told['description'])} | {content} |"
    yield ""


def _parameters(item: Json, operation: Json) -> list[Json]:
    return [*item.get("parameters", ()), *operation.get("parameters", ())]


def _found(document: Any, told: Json) -> Json:
    """Return what a reference names, or the thing itself."""
    if "$ref" not in told:
        return told
    for part in told["$ref"].removeprefix("#/").split("/"):
        document = document[part]
    found: Json = document
    return found


def _media(name: str, content: Json) -> str:
    schema = _kind(content.get("schema", {}))
    return f"`{name}`" + (f" {schema}" if schema else "")


def _kind(schema: Json) -> str:
    """Return a word for a schema: a link to a named one, or its type."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    kind = schema.get("type", "")
    if kind == "array" and _kind(schema.get("items", {})):
        return f"array of {_kind(schema['items'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _members(schema: Json) -> Iterator[str]:
    members = schema.get("properties", {})
    if members:
        yield from ("| member | type | meaning |", "|---|---|---|")
    for name, member in members.items():
        yield f"| `{name}` | {_kind(member)} | {_cell(member.get('description', ''))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
