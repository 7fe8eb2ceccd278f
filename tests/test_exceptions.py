"""Every exception of the package goes through pickle, and so from one process to another."""

import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import docstore
import gossip
from docstore.errors import BadRequest

OPTIONAL = {"aiokafka", "crc32c", "kio"}
"""Packages that modules with an extra import."""
VALUES: dict[str, Any] = {"int": 409, "str": "why", "dict": {"detail": "d", "errorCode": "c"}}


def modules() -> Iterator[ModuleType]:
    for package in (docstore, gossip):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                try:
                    yield importlib.import_module(found.name)
                except ImportError as error:
                    if not any(name in str(error) for name in OPTIONAL):
                        raise


def exceptions() -> list[type[BaseException]]:
    found = {
        each
        for module in modules()
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, BaseException)
    }
    ours = [each for each in found if each.__module__.split(".")[0] in ("docstore", "gossip")]
    return sorted(ours, key=lambda each: (each.__module__, each.__qualname__))


def made(kind: type[BaseException]) -> BaseException:
    """Return an exception of a class, with values of the kinds that it is made of."""
    if kind.__init__ in (BaseException.__init__, Exception.__init__, OSError.__init__):
        return kind("why")
    given: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        text = str(getattr(parameter.annotation, "__name__", parameter.annotation))
        given[name] = VALUES.get(text, BadRequest("why"))
    return kind(**given)


def test_every_exception_of_the_package_can_be_pickled() -> None:
    found = exceptions()
    assert len(found) > 100
    wrong = []
    for kind in found:
        error = made(kind)
        try:
            copy = pickle.loads(pickle.dumps(error))
        except Exception as why:  # noqa: BLE001 - all of them are listed
            wrong.append((kind, repr(why)))
            continue
        if shown(copy) != shown(error):
            wrong.append((kind, shown(copy)))
    assert not wrong


def shown(error: BaseException) -> tuple[object, ...]:
    """Return the parts that two equal exceptions share."""
    members = re.sub(r" at 0x[0-9a-f]+", "", repr(vars(error)))
    return type(error), str(error), error.args, members


def test_one_with_members_of_its_own_keeps_them() -> None:
    from docstore.client import RequestFailed

    error = RequestFailed(409, {"detail": "held by another", "errorCode": "held"})
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.status, copy.code, copy.problem, str(copy)) == (
        409, "held", error.problem, "409 held by another",
    )  # fmt: skip
    with pytest.raises(TypeError):
        raise TypeError from copy
