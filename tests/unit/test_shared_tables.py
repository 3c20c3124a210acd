"""Several topics in one table of SQLite: its columns, and what the plan says of their rows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playhead.errors import Refused
from playhead.record import Record, TimestampType
from playhead.records import Records
from playhead.request import TableRules
from playhead.source import SourceFacts, TopicFacts
from playhead.sqlite.target import SqliteTarget
from playhead.tables.columns import PLACE
from playhead.target import Inspection, InspectRequest
from tests.unit.test_sqlite import rows


def samples(topic: str, *values: Any) -> Records:
    create = TimestampType.CREATE_TIME
    return Records.of(
        Record(topic, 0, offset, 1, create, None, json.dumps(value).encode())
        for offset, value in enumerate(values)
    )


def inspected(
    tmp_path: Path, table: str, rules: TableRules, *given: Records, partitions: int = 1
) -> Inspection:
    target = SqliteTarget(str(tmp_path / "a.db"), table, rules)
    facts = SourceFacts("contract", {each.topic: TopicFacts() for each in given})
    counts = dict.fromkeys(facts.topics, partitions)
    return target.inspect(InspectRequest(facts, counts, given))


def told(inspection: Inspection) -> list[str]:
    return [note.code for note in inspection.notes]


BOTH = samples("a", {"x": 1, "w": 2}), samples("b", {"y": 1, "x": "text"})


def test_a_new_table_has_the_fields_of_all_its_topics(tmp_path: Path) -> None:
    made = inspected(tmp_path, "t", TableRules(create=True), *BOTH)
    [table] = made.needs["tables"]
    assert table["columns"][:3] == ["x", "w", "y"]
    assert made.rows[1]["y"] == 1
    assert told(made) == []


def test_a_new_table_may_have_the_topic_in_its_key(tmp_path: Path) -> None:
    rules = TableRules(key=("_topic", "x"), on_conflict="update", create=True)
    [table] = inspected(tmp_path, "t", rules, *BOTH).needs["tables"]
    assert table["key"] == ["_topic", "x"]
    with pytest.raises(Refused, match="the key column none is in no sampled record"):
        inspected(tmp_path, "t", replace(rules, key=("_topic", "none")), *BOTH)


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize(
    ("key", "topics", "partitions", "is_said"),
    [
        (("x",), BOTH, 1, True),
        (("x",), BOTH[:1], 3, True),
        (("x",), BOTH[:1], 1, False),
        ((), BOTH, 3, False),
    ],
)
@pytest.mark.parametrize("rule", ["ignore", "update"])
def test_the_plan_says_that_partitions_have_no_order(
    tmp_path: Path,
    is_there: bool,
    key: tuple[str, ...],
    topics: tuple[Records, ...],
    partitions: int,
    is_said: bool,
    rule: str,
) -> None:
    if is_there:
        by = ", ".join(key or PLACE)
        columns = f"x, w, y, _topic, _partition, _offset, PRIMARY KEY ({by})"
        rows(tmp_path / "a.db", f"CREATE TABLE t ({columns})")
    rules = TableRules(key=key, on_conflict=rule, create=not is_there)
    found = inspected(tmp_path, "t", rules, *topics, partitions=partitions)
    assert told(found) == (["target-order"] if is_said else [])
    if is_said:
        which = "first" if rule == "ignore" else "last"
        assert f"the {which} of its partition wins; between partitions" in found.notes[0].text


def test_rows_of_several_topics_that_cannot_be_verified_are_said(tmp_path: Path) -> None:
    rows(tmp_path / "a.db", "CREATE TABLE t (x, w, y, _partition, _offset)")
    found = inspected(tmp_path, "t", TableRules(), *BOTH)
    assert told(found) == ["target-unplaced"]
    assert "records of 2 topics and lacks the column _topic" in found.notes[0].text
    assert told(inspected(tmp_path, "t", TableRules(), samples("a", {"x": 1}))) == []


def test_topics_whose_names_differ_in_case_get_no_table_together(tmp_path: Path) -> None:
    """SQLite compares names without it: the rows of one would go to the other's table."""
    given = samples("Cars", {"x": 1}), samples("cars", {"y": 1})
    with pytest.raises(Refused, match="the topics Cars, cars would go to one table"):
        inspected(tmp_path, "{topic}", TableRules(create=True), *given)
    inspected(tmp_path, "both", TableRules(create=True), *given)
