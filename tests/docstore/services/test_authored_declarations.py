"""The declaration of an author's service, and the changes that clients may make to it."""

from typing import Any, ClassVar

import pytest

from docstore.documents.write_path.handle import New
from docstore.model.service import Refusal
from docstore.service import Service as Author
from docstore.services.authored import declaration_of
from docstore.services.declared import FactoryService, options_of
from tests.docstore.services.test_authored import Plain, asked, made, refused, row


def test_a_declaration_has_all_settings_of_its_class() -> None:
    class Everything(Author):
        path = "/everything"
        kind = "test:Everything"
        revision = 7
        options = (*Author.options, "STRICT_UPDATE_CHECKING")
        methods = ("POST", "PUT")
        schema: ClassVar = {"type": "object"}
        put_creates = False
        requires_precondition = True
        requires_fence = True
        expires_after_s = 60
        keep_versions = 5

    found = options_of(declaration_of(Everything()))
    assert found.author.endswith("Everything")
    assert (found.path, found.kind, found.revision) == ("/everything", "test:Everything", 7)
    assert (found.methods, found.schema) == (("POST", "PUT"), {"type": "object"})
    assert (found.put_creates, found.strict_updates) == (False, True)
    assert (found.needs_precondition, found.requires_fence) == (True, True)
    assert (found.expires_after_s, found.versions) == (60, 5)


def test_clients_neither_declare_a_service_nor_change_its_declaration() -> None:
    factories = FactoryService()
    declaration = declaration_of(Plain())
    assert refused(None, "POST", declaration, factories) == (400, "refused-by-service")
    head, plain = row(declaration), {"path": "/accounts"}
    for body in (plain, declaration):
        assert refused(head, "PUT", body, factories) == (409, "refused-by-service")
        assert refused(head, "PATCH", body, factories) == (409, "refused-by-service")
    assert isinstance(asked(head, "DELETE", b"", factories), New)
    assert made(row(declaration, deleted=True), "POST", plain, factories, recreate_below=9) == plain
    assert refused(row(plain), "PUT", declaration, factories) == (400, "refused-by-service")


@pytest.mark.parametrize(
    "said",
    [
        None, 1, "bank:Accounts", {}, {"class": "a:B"}, {"class": "a:B", "revision": 1},
        {"class": "a:B", "revision": -1, "methods": []},
        {"class": "a:B", "revision": 1, "methods": ["GET"]},
        {"class": "a:B", "revision": 1, "methods": [], "more": 1},
    ],
)  # fmt: skip
def test_a_declaration_of_a_service_is_whole(said: Any) -> None:
    if said is None:
        assert options_of({"path": "/a", "service": said}).author == ""
        return
    with pytest.raises(Refusal):
        options_of({"path": "/a", "service": said})
