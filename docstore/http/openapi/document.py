"""The whole OpenAPI description: the paths of every node, and those of the known factories."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from docstore import __version__
from docstore.http.openapi.media import contents, examples
from docstore.http.openapi.operation import bodies_of, path_item
from docstore.http.openapi.parameters import headers, parameters
from docstore.http.openapi.samples import sample_of
from docstore.http.openapi.schemas.documents import DOCUMENTS
from docstore.http.openapi.schemas.nodes import NODES
from docstore.http.openapi.schemas.owners import OWNERS
from docstore.http.openapi.schemas.shapes import Schemas
from docstore.http.openapi.schemas.shared import FILM, SHARED
from docstore.http.openapi.schemas.streams import STREAMS
from docstore.http.routes.documents import factory_paths, written_schema
from docstore.http.routes.route import Body, Ops
from docstore.http.routes.table import PARTS, ROUTES
from docstore.model.service import Service, ServiceOptions
from docstore.services.unsupported_options import DIALECT

Json = dict[str, Any]
FACTORIES_MAX = 200
"""Maximum number of factories in the description."""
DESCRIPTION = """\
Versioned JSON documents, streams of records, leases: any node answers for all of its group.

Bodies are strict JSON: whole numbers within 64 bits and without a fraction, each name once, at
most 64 levels. Or they are `application/msgpack` by `Accept` and `Content-Type`. A body needs a
`Content-Type`. `OPTIONS` is answered everywhere. An error is a Problem, whose `outcome` says what
may be concluded. Where nodes have an access file, each request shows a token."""
SCHEMAS: Schemas = {**SHARED, **NODES, **DOCUMENTS, **STREAMS, **OWNERS}
"""All schemas of bodies by name: requests in full, answers as far as clients need them.

Answers may get further members later, so their schemas allow any."""
PROBLEM = (Body("Problem", "application/problem+json"),)
WRITTEN: Mapping[str, str] = {each.path: each.schema for each in ROUTES if each.schema}
"""Path of a factory of the store -> the schema that authors write."""
SAMPLES: Mapping[str, Any] = {name: schema["examples"][0] for name, schema in SCHEMAS.items()}
_PLAIN: Mapping[str, Json] = {
    name: {key: value for key, value in schema.items() if key != "examples"}
    for name, schema in SCHEMAS.items()
}
"""The schemas without the examples, which are components of their own."""


def described(services: Sequence[Service], may_read: Callable[[str], bool]) -> Json:
    """Return the description. may_read: whether the caller may read a path."""
    found = _Found({}, dict(_PLAIN), dict(SAMPLES), {*PROBLEM})
    for each in _pages():
        found.add(each)
    known = {each.options.path: each.options for each in services}
    built_in = [each for path, each in known.items() if path in found.paths]
    shown = [each for path, each in known.items() if path not in found.paths and may_read(path)]
    tags = [{"name": part.tag, "description": part.tells} for part in PARTS]
    for options in built_in:
        one = _one_of(options.path, found.paths)
        found.add(_items_of(options, one, "Document", _tag(found.paths, options)))
    for options, name in _named(shown[:FACTORIES_MAX]):
        tags.append({"name": options.path, "description": f"Documents of {options.kind}."})
        schema = WRITTEN.get(options.path, "Document")
        if schema == "Document" and options.methods:
            schema = found.schema(options, name)
        found.add(_items_of(options, f"{options.path}/{{id}}", schema, options.path, name))
    return {
        "openapi": "3.1.0",
        "info": {"title": "docstore", "version": __version__, "description": _told(len(shown))},
        "jsonSchemaDialect": DIALECT,
        "servers": [{"url": "/", "description": "The node that was asked; any other will do"}],
        "security": [{"token": []}, {}],
        "tags": tags,
        "paths": found.paths,
        "components": found.components(),
    }


def _told(factories: int) -> str:
    if factories <= FACTORIES_MAX:
        return DESCRIPTION
    return f"{DESCRIPTION}\n\nOf {factories:,} factories the first {FACTORIES_MAX} are described."


@dataclass(slots=True)
class _Found:
    """Paths with their operations, and the components to which these refer."""

    paths: dict[str, Json]
    schemas: dict[str, Json]
    samples: dict[str, Any]
    """Name of a schema -> an example."""
    bodies: set[Body]

    def add(self, more: "_Items") -> None:
        """Add paths that are not described yet: the pages' own descriptions say more."""
        for path, item in more.paths.items():
            self.paths.setdefault(path, item)
        self.bodies |= more.bodies

    def schema(self, options: ServiceOptions, name: str) -> str:
        """Add the schema that authors of a factory's documents write, and return its name."""
        self.schemas[name] = written_schema(options, name)
        schema = options.schema or options.described_by
        self.samples[name] = sample_of(schema) if schema else FILM
        return name

    def components(self) -> Json:
        return {
            "schemas": self.schemas,
            "examples": examples(self.samples, self.bodies),
            "parameters": parameters(),
            "headers": headers(),
            "responses": {
                "Problem": {
                    "description": "It was refused, or its outcome is not known",
                    "content": contents(PROBLEM),
                },
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        }


class _Items(NamedTuple):
    """Paths in the form of OpenAPI, and the bodies of their requests and answers."""

    paths: Mapping[str, Json]
    bodies: AbstractSet[Body]


@lru_cache(maxsize=1)
def _pages() -> Sequence[_Items]:
    """Return the paths that every node has."""
    return [_items_at({each.path: each.ops for each in part.routes}, part.tag) for part in PARTS]


@lru_cache(maxsize=2 * FACTORIES_MAX)
def _items_of(options: ServiceOptions, one: str, schema: str, tag: str, name: str = "") -> _Items:
    """Return the paths of a factory. name: stands for its path in the names of operations."""
    return _items_at(factory_paths(options, one, schema), tag, name)


def _items_at(ops: Mapping[str, Ops], tag: str, name: str = "") -> _Items:
    paths = {
        path: path_item(path, each, tag, path.replace(tag, name, 1) if name else path)
        for path, each in ops.items()
    }
    return _Items(paths, {body for each in ops.values() for body in bodies_of(each)})


def _one_of(factory: str, pages: Mapping[str, Json]) -> str:
    """Return the path of a factory's document, as the pages spell it."""
    within = (path for path in pages if path.startswith(f"{factory}/{{"))
    return next((path for path in within if path.count("/") == factory.count("/") + 1),
                f"{factory}/{{id}}")  # fmt: skip


def _tag(pages: Mapping[str, Json], options: ServiceOptions) -> str:
    [tag] = next(iter(pages[options.path].values()))["tags"]
    return str(tag)


def _named(shown: Sequence[ServiceOptions]) -> Iterator[tuple[ServiceOptions, str]]:
    """Yield factories, each with a schema name that is not used elsewhere."""
    taken = set(SCHEMAS)
    for options in shown:
        name = plain = re.sub(r"\W", "_", options.path[1:], flags=re.ASCII)
        number = 1
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name)
        yield options, name
