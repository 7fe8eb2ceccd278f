"""Settings of a node about the services of authors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docstore.model.settings import flag, listed

SERVICE_KEYS = ("service", "reload", "development")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The service classes that a node loads, and the means to develop them."""

    classes: tuple[str, ...] = ()
    """Service classes, `package.module:Class`; each makes the states of a factory's documents."""

    reload: bool = False
    """Whether to load the classes again when a file of theirs changes."""

    development: bool = False
    """Whether clients get the traceback when a handler fails."""


def service_settings(settings: Mapping[str, Any]) -> ServiceSettings:
    """Parse the settings. Raises BadConfig."""
    return ServiceSettings(
        tuple(listed(settings.get("service", ""))),
        flag(settings.get("reload", False), "reload"),
        flag(settings.get("development", False), "development"),
    )
