"""Ids that jobs make: different keys are different documents."""

from docstore.pipeline.jobs.viewing import group_id
from tests.pipeline.stage import Stage


def test_groups_of_different_keys_have_different_ids(stage: Stage) -> None:
    names = ["C", "c", "C#", "C++", "中文", "русский", "a/b", "a b", "null", "x" * 600, "x" * 601]
    rows = [(name, "", ["x"]) for name in names] + [
        ("a", "b-c", ["x, y"]), ("a-b", "c", ["x, y"]), ("a", "b-c", ["x", "y"]),
        (None, "a", []), ("a", None, []), ("a", "", []), ("", "a", []), ("a~b", "c", None),
    ]  # fmt: skip
    groups = stage.spark.createDataFrame(rows, "a string, b string, c array<string>")
    made = groups.select(group_id(groups, ["a", "b", "c"])).collect()
    assert len({row[0] for row in made}) == len(rows)
