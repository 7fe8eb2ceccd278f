"""Methods of a resource: the answer to OPTIONS, and refusals of other methods."""

from docstore.errors import MethodNotAllowed
from docstore.http.reply import Reply, header_lines
from docstore.model.service import ServiceOptions

READ_METHODS = "GET, HEAD, OPTIONS"
READS = frozenset({"GET", "HEAD", "OPTIONS"})


def document_methods(options: ServiceOptions) -> str:
    """Return the methods of a service's documents, in the form of the header `Allow`."""
    changes = [each for each in options.methods if each != "POST"]
    return ", ".join(sorted([*changes, *READ_METHODS.split(", ")]))


def factory_methods(options: ServiceOptions) -> str:
    """Return the methods of a factory, in the form of the header `Allow`."""
    return f"{READ_METHODS}, POST" if "POST" in options.methods else READ_METHODS


def allowed(methods: str) -> Reply:
    """Return the answer to OPTIONS."""
    return Reply(204, head=header_lines({"Allow": methods}))


def not_allowed(method: str, allow: str) -> MethodNotAllowed:
    """Return the error for a method that a resource does not have."""
    error = MethodNotAllowed(f"{method[:20]} is not for this resource")
    error.allow = allow
    return error
