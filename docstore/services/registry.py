"""The services of this node by path: built in, or declared in a decided row.

A declaration may name a class that makes the states. The caller passes in the classes of this node.
If a class is missing, or of another kind, the node applies no updates of its factory.
"""

from collections.abc import Sequence

from docstore.model import json
from docstore.model.document import Row
from docstore.model.service import Malformed, Refusal, Service, ServiceOptions, State
from docstore.service import Service as Author
from docstore.services import authored, declared
from docstore.services.example import DESCRIPTION, ExampleService
from docstore.services.group_document import GROUPS, ROLES
from docstore.services.groups import GroupService
from docstore.services.leases import LeaseService
from docstore.services.lock_queue import ELECTIONS, LOCKS, TurnService
from docstore.services.offsets import OffsetService, is_of_offsets
from docstore.services.snapshots import SnapshotService
from docstore.services.subscriptions import SubscriptionService
from docstore.streams.replica_set import PartitionService, is_of_partitions
from docstore.streams.topic import TopicService

FACTORIES = "/core/factories"
SNAPSHOTS = "/core/snapshots"
"""Cuts with a name, in the member `cut`; nodes keep the rows of a cut until the document is
deleted."""
FEED_KEYS = "/core/feed-keys"
"""The key of a group's sealed tokens, created by the first node that needs it."""
JOBS, DEAD_LETTERS = "/core/spark/jobs", "/core/spark/dead"
"""Documents of bulk jobs: one for each job, and one for each row that was refused."""
_RATE = {"type": "number", "minimum": 0}
QUOTAS = ServiceOptions(
    path="/core/spark/quotas", kind="docstore:Quota",
    schema={
        "properties": {"rowsPerSecond": _RATE, "writesPerSecond": _RATE},
        "additionalProperties": False,
    },
)  # fmt: skip
"""Quota of a bulk job on each node; see `docstore/http/quotas.py`."""

PRODUCERS = ServiceOptions(path="/core/producers", kind="docstore:Producer", methods=("DELETE",))
"""Epochs of idempotent producers by id; see `docstore/http/producers.py`."""

EXAMPLES = ServiceOptions(
    path=ExampleService.path, kind=ExampleService.kind, put_creates=ExampleService.put_creates,
    described_by=DESCRIPTION,
)  # fmt: skip


def declaration_id(path: str) -> str:
    return path[1:].replace("/", ":")


def declared_path(name: str) -> str:
    """Return the path of the factory whose declaration has this id."""
    # A colon at the end belongs to the path itself.
    return "/" + name[:-1].replace(":", "/") + name[-1:]


def declaration_link(path: str) -> str:
    return f"{FACTORIES}/{declaration_id(path)}"


def check_declaration(link: str, state: State) -> None:
    """Raise Refusal unless the state declares the factory that belongs to `link`."""
    path = declared.path_of(state)
    if declaration_link(path) != link:
        raise Malformed(f"a declaration of {path} must be at {declaration_link(path)}; got {link}")


def declared_in(row: Row) -> ServiceOptions | None:
    """Return the declared options; None if a later program with more options wrote the row."""
    try:
        state = json.load(row.state)
        check_declaration(row.link, state)
        return declared.options_of(state)
    except Refusal:
        return None


class Registry:
    """Services by path."""

    def __init__(
        self, authors: Sequence[Author] = (), call: authored.Call = authored.called_plainly
    ) -> None:
        """authors: the classes of this node, with distinct paths. call: calls their handlers.

        Raises Refusal for a class that cannot be declared.
        """
        self._call = call
        self.use(authors)
        built_in: Sequence[Service] = (
            authored.AuthoredService(EXAMPLES, ExampleService()),
            declared.FactoryService(),
            TopicService(),
            LeaseService(),
            TurnService(ELECTIONS, "docstore:Election"),
            TurnService(LOCKS, "docstore:Lock"),
            SnapshotService(SNAPSHOTS),
            SubscriptionService(),
            declared.DeclaredService(ServiceOptions(path=JOBS, kind="docstore:Job")),
            declared.DeclaredService(ServiceOptions(path=DEAD_LETTERS, kind="docstore:DeadLetter")),
            declared.DeclaredService(
                ServiceOptions(path=FEED_KEYS, kind="docstore:FeedKey", methods=())
            ),
            declared.DeclaredService(QUOTAS),
            declared.DeclaredService(PRODUCERS),
            GroupService(GROUPS, "docstore:Group"),
            GroupService(ROLES, "docstore:Roles"),
        )
        self._services: dict[str, Service] = {each.options.path: each for each in built_in}
        self._partitions = PartitionService()
        """Service of the partitions of all topics, one path for each topic."""
        self._offsets = OffsetService()
        """Service of the offsets of all groups and topics."""
        self.built_in: Sequence[Service] = (*built_in, self._partitions, self._offsets)
        self._declared: dict[str, tuple[int, str]] = {}
        """Link of a declaration -> (its version, the declared path, "" if deleted)."""
        self.measured = {
            each.options.path
            for each in built_in
            if declared.INSTRUMENTATION in each.options.options
        }
        """Paths of the factories with INSTRUMENTATION; kept up to date, in place."""

    def use(self, authors: Sequence[Author]) -> None:
        """Use other classes. Publish all declarations again afterwards."""
        self.authors = {each.path: each for each in authors}
        self._kinds = {
            path: declared.checked_options(authored.declaration_of(each)).kind
            for path, each in self.authors.items()
        }

    def publish(self, row: Row) -> None:
        """Add the factory of a declaration, or drop it if deleted; ignore an older version.

        Ignores other rows too.
        """
        if not row.link.startswith(f"{FACTORIES}/"):
            return
        if row.deleted:
            self._retire(row)
        else:
            self._declare(row)

    def version_of(self, link: str) -> int:
        """Return the known version of a declaration or of its deletion; -1 for none."""
        return self._declared.get(link, (-1, ""))[0]

    def forget(self, link: str, version: int) -> None:
        """Drop a declaration, unless another version became known meanwhile."""
        if self.version_of(link) == version:
            _, path = self._declared.pop(link, (-1, ""))
            self._remove(path)

    def _declare(self, row: Row) -> None:
        known = self._declared.get(row.link)
        if known is not None and known[0] > row.version:
            return  # The same version may differ, because it was read undecided from a disk.
        options = declared_in(row)
        if options is None:
            return
        self._declared[row.link] = (row.version, options.path)
        self._services[options.path] = self._service_of(options)
        if declared.INSTRUMENTATION in options.options:
            self.measured.add(options.path)
        else:
            self.measured.discard(options.path)

    def _service_of(self, options: ServiceOptions) -> Service:
        if not options.author:
            return declared.DeclaredService(options)
        if self._kinds.get(options.path) != options.kind:
            return authored.MissingService(options)
        return authored.AuthoredService(options, self.authors[options.path], self._call)

    def _retire(self, row: Row) -> None:
        version, path = self._declared.get(row.link, (-1, ""))
        if row.version >= version:
            self._declared[row.link] = (row.version, "")
            self._remove(path)

    def _remove(self, path: str) -> None:
        self._services.pop(path, None)
        self.measured.discard(path)

    def service_at(self, path: str) -> Service | None:
        found = self._services.get(path)
        if found is None and is_of_partitions(path):
            return self._partitions
        return self._offsets if found is None and is_of_offsets(path) else found

    def service_for(self, link: str) -> Service | None:
        """Return the service of the document at `link`, which is at the parent path."""
        return self.service_at(link.rpartition("/")[0])

    def webhook_secret(self, link: str) -> str:
        """Return the secret that signs the webhooks of a document's service, "" for none."""
        author = self.authors.get(link.rpartition("/")[0])
        return author.webhook_secret if author is not None else ""

    def declared(self) -> list[str]:
        """Return the paths of declared factories, without built-in ones."""
        return [path for _, path in self._declared.values() if path]

    def services(self) -> list[Service]:
        """Return all services with a path of their own, sorted by path."""
        return [self._services[path] for path in sorted(self._services)]
