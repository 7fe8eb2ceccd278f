"""The whole OpenAPI description: the paths of every node, and those of the known factories."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from docstore import __version__
from docstore.http.openapi.operation import path_item, schema_of
from docstore.http.openapi.parameters import headers, parameters
from docstore.http.openapi.schemas import SCHEMAS
from docstore.http.routes.documents import factory_paths, written_schema
from docstore.http.routes.route import Ops
from docstore.http.routes.table import PARTS
from docstore.model.service import Service, ServiceOptions
from docstore.services.unsupported_options import DIALECT

Json = dict[str, Any]
FACTORIES_MAX = 200
"""Maximum number of factories in the description."""
DESCRIPTION = """\
Versioned JSON documents, streams of records, leases: any node answers for all of its group.

Bodies are JSON, or `application/msgpack` by `Accept` and `Content-Type`; a body needs a
`Content-Type`. `OPTIONS` is answered everywhere. An error is a Problem, whose `outcome` says
what may be concluded. Where nodes have an access file, each request shows a token."""


def described(services: Sequence[Service], may_read: Callable[[str], bool]) -> Json:
    """Return the description. may_read: whether the caller may read a path."""
    pages, tags = _pages()
    known = [each.options for each in services if each.options.path in pages]
    shown = [each.options for each in services if each.options.path not in pages]
    shown = [each for each in shown if may_read(each.path)]
    paths, schemas = dict(pages), dict(SCHEMAS)
    told = DESCRIPTION
    if len(shown) > FACTORIES_MAX:
        told += f"\n\nOf {len(shown):,} factories the first {FACTORIES_MAX} are described."
    for options in known:
        _add(
            paths,
            factory_paths(options, _one_of(options.path, pages), "Object"),
            _tag(pages, options),
        )
    for options, name in _named(shown[:FACTORIES_MAX]):
        schemas[name] = written_schema(options, name)
        tags = [*tags, {"name": options.path, "description": f"Documents of {options.kind}."}]
        of_factory = factory_paths(options, f"{options.path}/{{id}}", name)
        for path, operations in of_factory.items():
            called = path.replace(options.path, name, 1)
            paths[path] = path_item(path, operations, options.path, called)
    return {
        "openapi": "3.1.0",
        "info": {"title": "docstore", "version": __version__, "description": told},
        "jsonSchemaDialect": DIALECT,
        "security": [{"token": []}, {}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": parameters(),
            "headers": headers(),
            "responses": {
                "Problem": {
                    "description": "It was refused, or its outcome is not known",
                    "content": {"application/problem+json": {"schema": schema_of("Problem")}},
                },
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


@lru_cache(maxsize=1)
def _pages() -> tuple[Mapping[str, Json], list[Json]]:
    """Return the paths that every node has, and their components."""
    paths: dict[str, Json] = {}
    for part in PARTS:
        _add(paths, {route.path: route.ops for route in part.routes}, part.tag)
    return paths, [{"name": part.tag, "description": part.tells} for part in PARTS]


def _add(paths: dict[str, Json], more: Mapping[str, Ops], tag: str) -> None:
    """Add paths that are not described yet: the pages' own descriptions say more."""
    for path, operations in more.items():
        if path not in paths:
            paths[path] = path_item(path, operations, tag)


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
