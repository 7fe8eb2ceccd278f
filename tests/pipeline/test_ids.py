"""Ids that jobs make: different keys are different documents."""

from docstore.model.slots import slot_of
from docstore.pipeline.jobs.viewing import group_id
from docstore.pipeline.tables import slot_column
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


def test_rows_are_put_in_the_order_of_the_slots_that_nodes_find(stage: Stage) -> None:
    links = ["/orders/42~1", "/orders:/42", "/orders:/42~1", "/shop/lines:/a b~ü", "/core/x:/1~2"]
    rows = stage.spark.createDataFrame([(link,) for link in links], "link string")
    found = rows.select(slot_column(rows["link"], 1024)).collect()
    assert [row[0] for row in found] == [slot_of(link, 1024) for link in links]
    assert found[1] == found[2]
