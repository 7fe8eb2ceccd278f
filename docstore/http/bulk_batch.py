"""Lines of a bulk request that arrived together: submits the valid ones, fails the others.

Consecutive operations are submitted together. Such a run ends at an invalid line, because results
are in the order of the lines, and at a large line, for which the others must not wait.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from docstore.errors import BadRequest, DocstoreError, MethodNotAllowed, NotFound
from docstore.http.authority import Authority
from docstore.http.backend import Backend
from docstore.http.bulk_lines import NoOperation, operation_of, parsed
from docstore.http.documents import check_no_factory
from docstore.http.large_bodies import LARGE_BYTES, LargeBodies
from docstore.http.lines import BROKEN_LINES_MAX
from docstore.http.results import RefusedLine, Submitted, Together
from docstore.model.operation import RUN_BEGINS, Operation
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.model.service import Refusal, ServiceOptions
from docstore.model.settings import quoted


class BulkBatch:
    """The results of the lines of one batch, in their order."""

    def __init__(
        self,
        backend: Backend,
        large: LargeBodies,
        authority: Authority,
        *,
        state_bytes_max: int,
        patience_s: float,
    ) -> None:
        self.submitted: list[Submitted] = []
        self.jobs: Counter[str] = Counter()
        """Bulk job -> number of its operations in this batch."""
        self._backend = backend
        self._large = large
        self._authority = authority
        self._principal = authority.principal
        self._state_bytes_max = state_bytes_max
        self._patience_s = patience_s
        self._operations: list[Operation] = []
        self._options: dict[str, ServiceOptions] = {}
        self._unknown: set[str] = set()

    async def read(self, lines: Sequence[Any], streak: "Streak") -> None:
        """Submit the operations of the lines; stop after too many broken lines in a row."""
        for line in lines:
            link = ""
            try:
                is_large = isinstance(line, bytes) and len(line) > LARGE_BYTES
                value = await self._large_one(line) if is_large else parsed(line)
                link = value["link"]
                streak.broken, streak.has_operations = 0, True
                self._authority.insist_on_line(method_of(value), link)
                factory = self._factory(link, value)
                options = self._options.get(factory) or await self._find_options(factory)
                if is_large:
                    operation = await self._large_operation(line, value, factory, options)
                else:
                    operation = self._operation_of(value, factory, options)
                if operation.link != link:
                    check_no_factory(self._backend, operation.link)
                self._operations.append(operation)
                if operation.writer:
                    self.jobs[operation.writer[0].partition(RUN_BEGINS)[0]] += 1
            except (DocstoreError, Refusal) as error:
                # The traceback refers to this batch: a reference cycle would keep all these bodies
                # alive.
                error.__traceback__ = error.__context__ = None
                self._fail(link, error)
                if isinstance(error, NoOperation) and (why := streak.ends(error)):
                    self._fail("", why)
                    break
        self._submit()

    def _submit(self) -> None:
        """Submit the operations since the last submission."""
        operations, self._operations = self._operations, []
        if operations:
            links = [operation.link for operation in operations]
            answers = self._backend.submit_batch(operations, self._patience_s)
            self.submitted.append(Together(links, answers))

    def _fail(self, link: str, error: DocstoreError | Refusal) -> None:
        self._submit()
        self.submitted.append(RefusedLine(link, error))

    async def _large_one(self, line: bytes) -> dict[str, Any]:
        self._submit()
        value, _ = await self._large.read(len(line), self._patience_s, partial(parsed, line))
        return value

    def _operation_of(
        self, value: dict[str, Any], factory: str, options: ServiceOptions
    ) -> Operation:
        return operation_of(value, factory, options, self._state_bytes_max, self._principal)

    async def _large_operation(
        self, line: bytes, value: dict[str, Any], factory: str, options: ServiceOptions
    ) -> Operation:
        make = partial(self._operation_of, value, factory, options)
        operation, _ = await self._large.read(len(line), self._patience_s, make)
        return operation

    def _factory(self, link: str, value: dict[str, Any]) -> str:
        """Return the factory of a line: the parent of its link, or for a POST the link itself."""
        canonical_link(link)
        if self._backend.registry.service_at(link) is not None:
            if str(value.get("op")).upper() != "POST":
                raise MethodNotAllowed(
                    f"op must be POST, because {link} is a factory; got {quoted(value.get('op'))}"
                )
            return link
        factory, _, name = link.rpartition("/")
        if name in SUFFIXES:
            raise BadRequest(f"link: {name} is a utility, and cannot be an id: use another")
        return factory

    async def _find_options(self, factory: str) -> ServiceOptions:
        """Return the options of a factory, and keep them for the lines that follow."""
        service = self._backend.registry.service_at(factory)
        if service is None and factory not in self._unknown:
            self._submit()
            service = await self._backend.find_service(factory, self._patience_s)
        if service is None:
            self._unknown.add(factory)
            raise NotFound(f"there is no factory {factory}")
        options = self._options[factory] = service.options
        return options


def method_of(value: dict[str, Any]) -> str:
    """Return the HTTP method that needs the same permission as a line."""
    method = str(value.get("op")).upper()
    return method if method in ("PATCH", "DELETE") else "PUT"


@dataclass(slots=True)
class Streak:
    """Counts consecutive lines that are not operations: many mean that the body is something else.

    is_answered: whether results have been sent. is_over: whether the streak was too long.
    """

    broken: int = 0
    has_operations: bool = False
    is_answered: bool = False
    is_over: bool = False

    def ends(self, error: NoOperation) -> BadRequest | None:
        """Count a broken line; return the error that ends the request, None to continue.

        Raises that error if no operation and no result came before it, so that it can be the
        request's status.
        """
        self.broken += 1
        if self.broken < BROKEN_LINES_MAX:
            return None
        why = f"{self.broken} lines in a row are no operations ({error}); the rest was not read"
        if not self.has_operations and not self.is_answered:
            raise BadRequest(f"{why}: is the body what its Content-Type says?")
        self.is_over = True
        return BadRequest(why)
