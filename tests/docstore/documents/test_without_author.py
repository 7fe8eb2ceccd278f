"""Updates of the store itself skip the author's code, which may be gone or refuse (D5, S5)."""

import pytest

from docstore.documents.events import Requested
from docstore.model import json
from docstore.model.document import LEASE, tag_of
from docstore.model.fences import OF_THE_STORE
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.service import Service, ServiceOptions
from docstore.services.declared import DeclaredService
from tests.docstore.documents.trio import NAMES, Trio

LINK = "/t/a"
PLEASED = DeclaredService(ServiceOptions(path="/t", kind="t"))
STRICT = DeclaredService(
    ServiceOptions(
        path="/t", kind="t", immutable=True, requires_fence=True, strict_updates=True,
        schema={"required": [LEASE]},
    )
)  # fmt: skip
RELEASED = json.dump({LEASE: None})


class Declared(Trio):
    """Three replicas whose factory a test replaces or removes."""

    def become(self, service: Service | None) -> None:
        for name in NAMES:
            self.replicas[name].core.service_for = lambda link, since: service

    def ask(self, operation: Operation) -> Answer:
        self.answers.clear()
        self.feed(self.owner(), Requested(len(self.sent), operation, self.now + 5))
        assert self.run_until(lambda: self.answers, 10)
        [(_, respond)] = self.answers
        return respond.outcome


@pytest.fixture
def group() -> Declared:
    group = Declared()
    assert group.run_until(group.owner, 10)
    group.become(PLEASED)
    made = Operation(verb="PUT", link=LINK, body=json.dump({LEASE: "l", "a": 1}), creates=True)
    assert group.ask(made).status == 201
    return group


def own(group: Declared, verb: str) -> Operation:
    """Return the store's own update of the document in its present version."""
    row = group.ask(Operation(verb="GET", link=LINK)).row
    assert row is not None
    unchanged = Conditions(match=[list(tag_of(row, 3))])
    body, media = (RELEASED, "merge") if verb == "PATCH" else (b"", "")
    return Operation(
        verb=verb, link=LINK, body=body, media=media, conditions=unchanged, fence=OF_THE_STORE
    )


@pytest.mark.parametrize("service", [None, STRICT])
@pytest.mark.parametrize(("verb", "left"), [("DELETE", None), ("PATCH", {"a": 1})])
def test_d5_removals_by_the_store_ignore_the_factory(
    group: Declared, service: Service | None, verb: str, left: object
) -> None:
    group.become(service)
    assert group.ask(own(group, verb)).status == 200
    found = group.ask(Operation(verb="GET", link=LINK))
    assert (json.load(found.row.state) if found.is_success and found.row else None) == left


@pytest.mark.parametrize(("service", "status"), [(None, 503), (STRICT, 428)])
def test_a_client_is_still_judged_by_the_factory(
    group: Declared, service: Service | None, status: int
) -> None:
    group.become(service)
    assert group.ask(Operation(verb="DELETE", link=LINK)).status == status


def test_a_document_changed_meanwhile_is_not_removed(group: Declared) -> None:
    late = own(group, "DELETE")
    assert group.ask(Operation(verb="PUT", link=LINK, body=b"{}")).status == 200
    group.become(None)
    assert group.ask(late).status == 412
