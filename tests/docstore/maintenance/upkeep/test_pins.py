"""Version limits of factories: a declaration of a later version keeps all versions."""

from typing import Any

from docstore.maintenance.upkeep.pins import counted_by
from docstore.model import json
from docstore.model.document import Row
from docstore.services.declared import VERSIONS_MAX
from docstore.services.registry import declaration_link


def declared(path: str, **members: Any) -> Row:
    state = json.dump({"path": path, **members})
    link = declaration_link(path)
    return Row(0, 1, 1, "n1", link, 0, "POST", 1, False, b"", b"", b"", state)


def test_declarations_limit_versions_and_unknown_ones_keep_all() -> None:
    weak = ["PERSISTENCE", "REPLICATION"]
    rows = [
        declared("/a", retention={"versions": 3}),
        declared("/b"),
        declared("/c", retention={"versions": 3}, options=weak),
        declared("/d", retention={"versions": 3, "phaseOfTheMoon": "full"}),
        declared("no path", retention={"versions": 3}),
    ]
    assert counted_by(rows) == {"/a": 3, "/d": VERSIONS_MAX}
