"""A node starts without the libraries of features that its settings do not use."""

import json
from pathlib import Path

from docstore.client import LocalCluster
from tests.source import names

RUN = (
    "import atexit, json, runpy, sys; from pathlib import Path;"
    " names = Path(sys.argv[sys.argv.index('--data') + 1]) / 'modules.json';"
    " atexit.register(lambda: names.write_text(json.dumps(list(sys.modules))));"
    " runpy.run_module('docstore', run_name='__main__', alter_sys=True)"
)
NOT_NEEDED = (
    "cryptography",
    "jsonschema",
    "opentelemetry",
    "referencing",
    "sqlalchemy",
    "typer",
    "click",
    "pygments",
    "rich",
    "pyarrow",
    "aiokafka",
    "crc32c",
    "docstore.kafka",
    "kio",
)


def test_a_plain_node_loads_no_library_of_a_feature_that_it_does_not_use(tmp_path: Path) -> None:
    group = LocalCluster(1, tmp_path)
    group.nodes[0].command = ("-c", RUN)
    with group:
        pass  # Ready: it has found its group and has declared its services.
    loaded = set(json.loads((tmp_path / "n1" / "modules.json").read_text("utf-8")))
    assert "docstore.node.running" in loaded
    assert not {each for each in loaded if names(each, *NOT_NEEDED)}
