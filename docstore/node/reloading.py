"""Loads services again when a file of theirs changes, for development (`serve --reload`).

The node keeps running, with its connections and slots. If the new files cannot be loaded, it goes
on with the classes that it has, and logs the reason.
"""

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import structlog

from docstore.errors import BadConfig
from docstore.maintenance.upkeep.background import Background
from docstore.node.authors import load
from docstore.node.registration import ServiceRegistration
from docstore.services.registry import Registry

LOOK_S = 0.3

log = structlog.get_logger("docstore.services")


class Reloading(Background):
    """Looks at the files of the services, again and again."""

    def __init__(
        self,
        names: Sequence[str],
        registry: Registry,
        registration: ServiceRegistration,
        publish: Callable[[], Awaitable[None]],
    ) -> None:
        """names: classes, `package.module:Class`. publish: publishes all declarations again."""
        super().__init__("reloading services", self._look)
        # Python compares cached code by the second and the size of its file: too coarse here.
        sys.dont_write_bytecode = True
        self._names = names
        self._registry = registry
        self._registration = registration
        self._publish = publish
        self._seen = _stamps(names)

    async def _look(self) -> None:
        await asyncio.sleep(LOOK_S)
        found = _stamps(self._names)
        if found != self._seen:
            self._seen = found
            await self._reload()
            # The classes may be in other files now. A change during the reload is still news.
            now = _stamps(self._names)
            self._seen = {file: found.get(file, stamp) for file, stamp in now.items()}

    async def _reload(self) -> None:
        before = {name: sys.modules.pop(name) for name in list(_modules(self._names))}
        importlib.invalidate_caches()
        try:
            services = load(self._names)
        except BadConfig as error:
            sys.modules.update(before)
            log.warning("services are not reloaded", why=str(error))
            return
        self._registry.use(services)
        await self._publish()
        await self._registration.restart(services)
        log.info("services are reloaded", services=[each.path for each in services])


def _modules(names: Sequence[str]) -> Iterator[str]:
    """Yield the loaded modules of the packages of classes, or beside their single files."""
    for top in {name.partition(":")[0].partition(".")[0] for name in names}:
        if top not in sys.modules:
            continue
        for name, module in list(sys.modules.items()):
            if name == top or name.startswith(f"{top}.") or _are_siblings(module, sys.modules[top]):
                yield name


def _are_siblings(one: ModuleType, other: ModuleType) -> bool:
    """Say whether two modules are single files of one directory."""
    files = [getattr(each, "__file__", None) for each in (one, other)]
    if any(hasattr(each, "__path__") for each in (one, other)) or None in files:
        return False
    first, second = (Path(str(file)).parent for file in files)
    return first == second and first.name != "site-packages"


def _stamps(names: Sequence[str]) -> Mapping[str, int]:
    """Return the file of each module -> its time of change; 0 for one that is gone."""
    found = {}
    for name in _modules(names):
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None:
            path = Path(file)
            found[file] = path.stat().st_mtime_ns if path.exists() else 0
    return found
