"""Methods that a resource takes: what OPTIONS says, and what is refused."""

from docstore.errors import MethodNotAllowed
from docstore.http.reply import Reply, header_lines
from docstore.model.service import ServiceOptions

READ_METHODS = "GET, HEAD, OPTIONS"
READS = frozenset({"GET", "HEAD", "OPTIONS"})


def document_methods(options: ServiceOptions) -> str:
    """Return the methods that documents of a service take, as `Allow` names them."""
    changes = [each for each in options.methods if each != "POST"]
    return ", ".join(sorted([*changes, *READ_METHODS.split(", ")]))


def factory_methods(options: ServiceOptions) -> str:
    """Return the methods that a factory takes, as `Allow` names them."""
    return f"{READ_METHODS}, POST" if "POST" in options.methods else READ_METHODS


def allowed(methods: str) -> Reply:
    """Return the answer to OPTIONS."""
    return Reply(204, head=header_lines({"Allow": methods}))


def not_allowed(method: str, allow: str) -> MethodNotAllowed:
    """Return the error for a method that this resource does not take."""
    error = MethodNotAllowed(f"{method[:20]} is not for this resource")
    error.allow = allow
    return error
