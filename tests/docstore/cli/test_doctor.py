"""`docstore doctor` for a real group, before and after a node is killed."""

import json

from docstore.client import LocalCluster
from tests.docstore.cli.test_commands import docstore


def test_a_group_is_well_until_a_node_is_killed(group: LocalCluster) -> None:
    url, last = group.urls[0], group.nodes[2]
    declared = '{"path": "/notes", "documentNote": 1}'
    assert docstore("post", "/core/factories", declared, "--url", url)[0] == 0
    code, said, _ = docstore("doctor", "--url", url, "--json")
    page = json.loads(said)
    assert (code, page["well"], page["looked"]) == (0, True, "3 nodes, 1,024 slots")
    mine = [each for each in page["findings"] if "disk has" not in each["what"]]
    assert [(each["grade"], each["where"]) for each in mine] == [("risk", "/notes")]
    assert set(mine[0]) == {"grade", "where", "what", "do", "see"}
    group.kill(last)
    code, said, _ = docstore("doctor", "--url", url)
    assert code == 1
    assert said.startswith("wrong  n3: ")
    assert "\n       docs/operations.md#changing-the-group\n" in said
    assert said.splitlines()[-1].startswith("3 nodes, 1,024 slots: 1 wrong, ")
    code, said, _ = docstore("doctor", "--data", str(last.data))
    assert (code, said.split("  ")[0]) == (0, "risk")
    assert "the node was killed" in said


def test_an_unreachable_group_is_a_one_line_error() -> None:
    code, said, error = docstore("doctor", "--url", "http://127.0.0.1:1")
    assert (code, said) == (1, "")
    assert error.startswith("docstore: no node answers")
    assert error.count("\n") == 1
    code, said, error = docstore("backup", "create", "/proc/nowhere", "--url", "http://127.0.0.1:1")
    assert (code, said, error) == (1, "", "docstore: /proc/nowhere: No such file or directory\n")
