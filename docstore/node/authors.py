"""Loads the service classes of authors by name, and rejects faulty classes in one line each.

The classes are imported from Python's path, and last from the directory in which the node was
started.
"""

import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from docstore.errors import BadConfig
from docstore.model.service import METHODS, Refusal
from docstore.service import Service
from docstore.services.authored import declaration_of, name_of, overridden
from docstore.services.declared import options_of


def load(names: Sequence[str]) -> list[Service]:
    """Return a service of each class, `package.module:Class`. Raises BadConfig."""
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.append(here)
    services = [_loaded(name) for name in names]
    taken: dict[str, str] = {}
    for service in services:
        name = name_of(service)
        other = taken.setdefault(service.path, name)
        if other is not name:
            raise BadConfig(f"service: {other} and {name} have the same path {service.path}")
    return services


def _loaded(name: str) -> Service:
    module, _, named = name.partition(":")
    if not module or not named:
        raise _refused(name, "must be such as package.module:Class")
    try:
        found = getattr(importlib.import_module(module), named, None)
    except BaseException as error:  # noqa: BLE001 - authors' code may raise anything
        why = f"importing {module} raised {type(error).__name__}: {error}"
        raise _refused(name, why) from None
    if not inspect.isclass(found) or not issubclass(found, Service) or found is Service:
        raise _refused(name, f"{module} has no subclass of docstore.service.Service called {named}")
    try:
        service = found()
        why = next(_faults(service), "")
    except Exception as error:  # noqa: BLE001 - as above
        why = f"creating a {named} raised {type(error).__name__}: {error}"
        raise _refused(name, why) from None
    if why:
        raise _refused(name, why)
    return service


def _faults(service: Service) -> Iterator[str]:
    if not isinstance(getattr(service, "path", None), str):
        yield "path is missing; set it to that of its factory, such as /accounts"
    if not set(service.methods) <= set(METHODS):
        yield f"methods must be among {', '.join(METHODS)}"
    if isinstance(service.revision, bool) or not isinstance(service.revision, int):
        yield "revision must be a whole number"
    try:
        path = options_of(declaration_of(service)).path
        if path != service.path:
            yield f"path must be written without escapes: {path!r}"
    except Refusal as error:
        yield error.detail
    for handler in overridden(service):
        if inspect.iscoroutinefunction(getattr(service, handler)):
            yield f"{handler} must not be async: a handler returns at once"


def _refused(name: str, why: str) -> BadConfig:
    return BadConfig(f"service: {name[:200]}: {' '.join(why.split())[:500]}")
