"""What `verify` says of a SQLite table whose rows another program has changed."""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playhead.account import Account, ErrorRule
from playhead.errors import Refused
from playhead.ledger import Entry
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.request import TableRules
from playhead.source import SourceFacts, TopicFacts
from playhead.sqlite.target import SqliteTarget
from playhead.tables.columns import METADATA
from playhead.target import InspectRequest, SliceComparison
from playhead.task.play import with_refused
from playhead.testing.target_case import assert_all_told, terms
from tests.unit.test_sqlite import rows, written

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, x, y, _topic, _partition, _offset)"
Given = Mapping[Slice, Sequence[Any]]


def slices_of(*parts: Sequence[Any], partition: int = 0, start: int = 0) -> Given:
    """The values of neighbouring slices, ten offsets each."""
    return {
        Slice("t", partition, start + 10 * n, start + 10 * n + 10): values
        for n, values in enumerate(parts)
    }


def records(slice_: Slice, values: Sequence[Any]) -> list[Records]:
    create = TimestampType.CREATE_TIME
    place = slice_.topic, slice_.partition
    texts = [None if each is None else json.dumps(each).encode() for each in values]
    each = [Record(*place, slice_.from_offset + n, 1, create, b"k", v) for n, v in enumerate(texts)]
    return [Records.of(each)]


def table(tmp_path: Path, rule: str | None, made: str = TABLE) -> SqliteTarget:
    if not (tmp_path / "a.db").exists():
        rows(tmp_path / "a.db", made)
    rules = TableRules(key=("id",) if rule else (), on_conflict=rule)
    return SqliteTarget(str(tmp_path / "a.db"), "t", rules)


def replayed(target: SqliteTarget, given: Given, replay_id: str = "r") -> None:
    samples = [run for slice_, values in given.items() for run in records(slice_, values)]
    topics = sorted({slice_.topic for slice_ in given})
    facts = SourceFacts("contract", dict.fromkeys(topics, TopicFacts()))
    seen = InspectRequest(facts, dict.fromkeys(topics, 2), samples)
    target.prepare(replay_id, target.inspect(seen), terms(*topics))
    with target.open(replay_id) as writer:
        for slice_, values in given.items():
            account = Account(slice_, ErrorRule("skip"))
            account.read = len(values)
            writer.commit(account, records(slice_, values))


def verified(target: SqliteTarget, given: Given, replay_id: str = "r") -> SliceComparison:
    """The sum of the comparisons of all slices, with all differences."""
    entries = {entry.slice: entry for entry in target.entries(replay_id)}
    assert {*entries} == {*given}
    with target.open(replay_id) as writer:
        each = [writer.compare(entries[slice_], records(slice_, given[slice_])) for slice_ in given]
        found = [*(one for one in each if one is not None), *writer.conclude()]
    for one in found:
        assert_all_told(one)
    counts = {n: sum(getattr(one, n) for one in found) for n in ("expected", "found", "same")}
    more = {n: sum(getattr(one, n) for one in found) for n in ("different", "unknown")}
    sums = {
        n: " ".join(getattr(one, n) for one in found)
        for n in ("expected_checksum", "found_checksum")
    }
    differences = tuple(difference for one in found for difference in one.differences)
    return SliceComparison(found[-1].slice, differences=differences, **counts, **more, **sums)


def told(found: SliceComparison) -> tuple[int, int, int]:
    return found.same, found.different, found.unknown


def kinds(found: SliceComparison) -> Counter[str]:
    return Counter(each.kind for each in found.differences)


GOOD = [{"id": n, "x": "good"} for n in range(5)]


@pytest.mark.parametrize("rule", ["update", "ignore"])
def test_each_record_of_a_good_replay_is_the_same(tmp_path: Path, rule: str) -> None:
    given = slices_of(GOOD, [{"id": 3, "x": "later"}, {"id": 3, "y": 1}])
    given = {**given, **slices_of([{"id": 3, "x": "elsewhere"}, {"id": 9}], partition=1)}
    target = table(tmp_path, rule)
    replayed(target, given)
    found = verified(target, given)
    assert told(found) == (9, 0, 0), found
    assert found.expected_checksum == found.found_checksum
    assert target.compares_in_order(["t"])


@pytest.mark.parametrize("rule", [None, "ignore"])
def test_columns_that_a_record_does_not_name_are_empty_in_new_rows(
    tmp_path: Path, rule: str | None
) -> None:
    made = TABLE.replace("y,", "y, d DEFAULT 'kept', g AS (x || y),")
    target, given = table(tmp_path, rule, made), slices_of([{"id": 1, "x": "a"}, {"id": 2, "y": 1}])
    replayed(target, given)
    assert told(verified(target, given)) == (2, 0, 0)
    rows(tmp_path / "a.db", "UPDATE t SET y = 'evil' WHERE id = 1")
    found = verified(target, given)
    assert told(found)[0] == 1
    assert found.expected_checksum != found.found_checksum or found.unknown
    rows(tmp_path / "a.db", "UPDATE t SET y = NULL WHERE id = 1")
    for others in ("ALTER TABLE t ADD COLUMN added", "UPDATE t SET added = 'later', d = 'other'"):
        rows(tmp_path / "a.db", others)
        assert told(verified(target, given)) == (2, 0, 0)


@pytest.mark.parametrize("changed", ["y = 'evil'", "y = NULL"])
def test_columns_that_only_another_partition_names_are_compared_too(
    tmp_path: Path, changed: str
) -> None:
    given = slices_of([{"id": 1, "y": "first"}, {"id": 2}])
    given = {**given, **slices_of([{"id": 1, "y": "second"}], partition=2)}
    # The last to write: the row names its record, and only the others name y.
    given = {**given, **slices_of([{"id": 1, "x": "third"}], partition=1)}
    target = table(tmp_path, "update")
    replayed(target, given)
    assert told(verified(target, given)) == (4, 0, 0)
    rows(tmp_path / "a.db", f"UPDATE t SET {changed} WHERE id = 1")
    assert told(verified(target, given)) == (1, 0, 3)


@pytest.mark.parametrize("rule", ["update", "ignore"])
@pytest.mark.parametrize("offset", [999, -1, 4, 1, "'x'", "NULL"])
def test_a_row_that_claims_another_offset_is_no_excuse(
    tmp_path: Path, rule: str, offset: Any
) -> None:
    target, given = table(tmp_path, rule), slices_of(GOOD)
    replayed(target, given)
    rows(tmp_path / "a.db", f"UPDATE t SET x = 'evil', _offset = {offset} WHERE id = 3")
    found = verified(target, given)
    assert told(found) == (4, 1, 0), found
    assert kinds(found) == {"changed": 1}
    assert found.expected_checksum != found.found_checksum


@pytest.mark.parametrize("other", [0, 100])
@pytest.mark.parametrize("lost", ["0", "rowid > 5"])
def test_rows_that_do_not_name_their_topic_are_unknown_where_two_share_a_table(
    tmp_path: Path, other: int, lost: str
) -> None:
    """The row of one topic is no row of the other, and no row too many."""
    target = table(tmp_path, None, "CREATE TABLE t (x, _partition, _offset)")
    both = {
        Slice("t", 0, 0, 10): [{"x": n} for n in range(5)],
        Slice("u", 0, 0, 10): [{"x": n + other} for n in range(5)],
    }
    replayed(target, both)
    rows(tmp_path / "a.db", f"DELETE FROM t WHERE {lost}")
    found = verified(target, both)
    assert told(found) == (0, 0, 10)
    assert "another topic may have its offset, and the table has no _topic" in str(found)


@pytest.mark.parametrize("rule", [None, "update"])
def test_a_topic_of_another_replay_shares_a_table(tmp_path: Path, rule: str | None) -> None:
    made = "CREATE TABLE t (id INTEGER PRIMARY KEY, x, _partition, _offset)"
    target = table(tmp_path, rule, made)
    first = {Slice("t", 0, 0, 10): [{"id": n, "x": 1} for n in range(5)]}
    replayed(target, first)
    replayed(target, {Slice("u", 0, 3, 13): [{"id": n, "x": 2} for n in range(5, 10)]}, "other")
    assert told(verified(target, first)) == ((0, 0, 5) if rule is None else (5, 0, 0))
    rows(tmp_path / "a.db", "DELETE FROM t WHERE id = 3")
    assert told(verified(target, first)) == ((0, 0, 5) if rule is None else (4, 1, 0))


def test_a_row_too_many_is_found_where_a_replays_own_topics_share_a_table(tmp_path: Path) -> None:
    made = "CREATE TABLE t (id INTEGER PRIMARY KEY, x, _partition, _offset)"
    target = table(tmp_path, "update", made)
    both = {
        Slice(topic, 0, 0, 10): [{"id": n + start, "x": 1} for n in range(5)]
        for topic, start in (("t", 0), ("u", 5))
    }
    replayed(target, both)
    assert told(verified(target, both)) == (10, 0, 0)
    rows(tmp_path / "a.db", "INSERT INTO t VALUES (99, 1, 0, 3)")
    assert verified(target, both).different > 0


@pytest.mark.parametrize(
    ("partition", "changed", "is_shared"),
    [
        (0, "SELECT 1", True),
        (1, "SELECT 1", False),
        (0, "UPDATE playhead_replays SET terms = replace(terms, 'table t', 'table v')", False),
        (0, "UPDATE playhead_replays SET terms = replace(terms, 'table t', 'table T')", True),
        (0, "DELETE FROM playhead_replays WHERE replay = 'other'", True),
    ],
)
def test_who_else_wrote_to_a_table_is_known_by_its_terms(
    tmp_path: Path, partition: int, changed: str, is_shared: bool
) -> None:
    target = table(tmp_path, None, "CREATE TABLE t (x, _partition, _offset)")
    first = {Slice("t", 0, 0, 10): [{"x": n} for n in range(5)]}
    replayed(target, first)
    replayed(target, {Slice("u", partition, 0, 10): [{"x": 7}]}, "other")
    # Where it is not of the other topic, nothing else is one row too many.
    rows(tmp_path / "a.db", "DELETE FROM t WHERE x = 7")
    rows(tmp_path / "a.db", changed)
    assert told(verified(target, first)) == ((0, 0, 5) if is_shared else (5, 0, 0))


def test_topics_in_tables_of_their_own_share_none(tmp_path: Path) -> None:
    for each in "tu":
        rows(tmp_path / "a.db", f"CREATE TABLE {each} (x, _partition, _offset)")
    target = SqliteTarget(str(tmp_path / "a.db"), "{topic}", TableRules())
    both = {Slice(each, 0, 0, 10): [{"x": n} for n in range(5)] for each in "tu"}
    replayed(target, both)
    assert told(verified(target, both)) == (10, 0, 0)
    rows(tmp_path / "a.db", "DELETE FROM u WHERE x = 3")
    assert told(verified(target, both)) == (9, 1, 0)


def test_an_earlier_record_of_the_key_is_no_excuse(tmp_path: Path) -> None:
    given = slices_of(GOOD, [{"id": 3, "x": "last"}])
    target = table(tmp_path, "update")
    replayed(target, given)
    rows(tmp_path / "a.db", "UPDATE t SET x = 'good', _offset = 3 WHERE id = 3")
    found = verified(target, given)
    assert told(found) == (4, 2, 0), "both records of the key are lost"
    assert "the row of this key is from offset 3; 2 records have its key" in str(found.differences)


@pytest.mark.parametrize("rule", ["update", "ignore"])
def test_a_row_of_another_replay_cannot_be_told(tmp_path: Path, rule: str) -> None:
    target, given = table(tmp_path, rule), slices_of(GOOD)
    replayed(target, given)
    others = slices_of([{"id": 3, "x": "theirs"}], start=100)
    replayed(table(tmp_path, "update"), others, "s")
    found = verified(target, given)
    assert told(found) == (4, 0, 1)
    assert "is from offset 100, which another replay wrote" in found.differences[0].text


def test_under_ignore_no_more_rows_are_excused_than_were_left_alone(tmp_path: Path) -> None:
    target, given = table(tmp_path, "ignore"), slices_of(GOOD, [{"id": 5}, {"id": 0}])
    rows(tmp_path / "a.db", "INSERT INTO t (id, x) VALUES (1, 'before'), (2, 'before')")
    replayed(target, given)
    assert [entry.details.get("left_alone") for entry in target.entries("r")] == [2, 1]
    assert told(verified(target, given)) == (5, 0, 2)
    rows(tmp_path / "a.db", "UPDATE t SET x = 'evil', _offset = -1 WHERE id IN (0, 3, 5)")
    found = verified(target, given)
    # Two keys are excused, one of them of two records. In the second slice the replay's own row of
    # key 0 is what was left alone: this excuses no row of key 5.
    assert told(found) == (1, 3, 3), found


def test_rows_that_are_gone_and_rows_too_many_are_counted(tmp_path: Path) -> None:
    target, given = table(tmp_path, "update"), slices_of(GOOD, [{"id": 1}, {"id": 1, "x": "last"}])
    replayed(target, given)
    rows(tmp_path / "a.db", "DELETE FROM t WHERE id = 1")
    rows(tmp_path / "a.db", "INSERT INTO t VALUES (77, 'evil', 0, 't', 0, 11)")
    found = verified(target, given)
    assert told(found) == (4, 4, 0)
    assert kinds(found) == {"missing": 1, "extra": 1}


@pytest.mark.parametrize("rule", [None, "update"])
@pytest.mark.parametrize("declared", ["TEXT", "INTEGER", "BLOB", "REAL", "NUMERIC", ""])
def test_rows_too_many_are_counted_whatever_the_type_of_their_offsets(
    tmp_path: Path, declared: str, rule: str | None
) -> None:
    made = f"CREATE TABLE t (id INTEGER PRIMARY KEY, x, y, _topic, _partition {declared}, _offset {declared})"
    target = table(tmp_path, rule, made)
    given = slices_of(*([{"id": 10 * n + i, "x": 1} for i in range(10)] for n in range(2)))
    replayed(target, given)
    assert told(verified(target, given)) == (20, 0, 0)
    rows(
        tmp_path / "a.db",
        "INSERT INTO t VALUES (77, 'evil', 0, 't', 0, 7), (78, 'evil', 0, 't', 0, 12)",
    )
    found = verified(target, given)
    assert kinds(found) == {"extra": 2}, found


def test_fields_of_earlier_records_are_compared_too(tmp_path: Path) -> None:
    target, given = table(tmp_path, "update"), slices_of([{"id": 1, "y": 7}], [{"id": 1, "x": 1}])
    replayed(target, given)
    assert told(verified(target, given)) == (2, 0, 0)
    rows(tmp_path / "a.db", "UPDATE t SET y = 8")
    assert told(verified(target, given)) == (0, 2, 0)


@pytest.mark.parametrize("slices", [([{"x": 1, "y": 7}, None],), ([{"x": 1, "y": 7}], [None])])
@pytest.mark.parametrize("rule", ["update", None])
def test_a_tombstone_leaves_nothing_of_its_row(
    tmp_path: Path, rule: str | None, slices: tuple[Sequence[Any], ...]
) -> None:
    key = " PRIMARY KEY" if rule else ""
    made = f"CREATE TABLE t (_key{key}, x, y DEFAULT 3, _topic, _partition, _offset)"
    rows(tmp_path / "a.db", made)
    rules = TableRules(key=("_key",) if rule else (), on_conflict=rule, tombstones="null")
    target, given = SqliteTarget(str(tmp_path / "a.db"), "t", rules), slices_of(*slices)
    replayed(target, given)
    left = rows(tmp_path / "a.db", "SELECT _key, x, y FROM t ORDER BY _offset")
    assert left == [("k", 1, 7)] * (rule is None) + [("k", None, None)]
    assert told(verified(target, given)) == (2, 0, 0)
    rows(tmp_path / "a.db", "UPDATE t SET x = 1 WHERE x IS NULL")
    assert verified(target, given).different


def test_of_other_fields_a_row_has_those_of_its_record_alone(tmp_path: Path) -> None:
    rows(tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, x, more, _partition, _offset)")
    rules = TableRules(key=("id",), on_conflict="update", extra_fields="more")
    target = SqliteTarget(str(tmp_path / "a.db"), "t", rules)
    given = slices_of([{"id": 1, "x": 1, "z": 5}], [{"id": 1, "x": 2}])
    replayed(target, given)
    assert rows(tmp_path / "a.db", "SELECT id, x, more FROM t") == [(1, 2, None)]
    assert told(verified(target, given)) == (2, 0, 0)
    rows(tmp_path / "a.db", """UPDATE t SET more = '{"z": 5}'""")
    assert told(verified(target, given)) == (0, 2, 0)


@pytest.mark.parametrize("rule", ["update", None])
def test_a_tombstone_gives_its_row_the_defaults_of_columns_that_must_not_be_null(
    tmp_path: Path, rule: str | None
) -> None:
    unique = " UNIQUE" if rule else ""
    made = f"CREATE TABLE t (n INTEGER PRIMARY KEY, _key{unique}, x NOT NULL DEFAULT 3, y, _partition, _offset)"
    rows(tmp_path / "a.db", made)
    rules = TableRules(key=("_key",) if rule else (), on_conflict=rule, tombstones="null")
    target, given = (
        SqliteTarget(str(tmp_path / "a.db"), "t", rules),
        slices_of([{"x": 1, "y": 7}, None]),
    )
    replayed(target, given)
    left = rows(tmp_path / "a.db", "SELECT n, x, y FROM t ORDER BY _offset")
    assert left == ([(1, 3, None)] if rule else [(1, 1, 7), (2, 3, None)])
    assert told(verified(target, given)) == (2, 0, 0)


def test_a_record_without_other_fields_gives_their_column_its_default_if_it_must_not_be_null(
    tmp_path: Path,
) -> None:
    made = "CREATE TABLE t (id INTEGER PRIMARY KEY, x, more NOT NULL DEFAULT '{}', _partition, _offset)"
    rows(tmp_path / "a.db", made)
    rules = TableRules(key=("id",), on_conflict="update", extra_fields="more")
    target = SqliteTarget(str(tmp_path / "a.db"), "t", rules)
    given = slices_of([{"id": 1, "x": 1}, {"id": 2, "x": 1, "z": 3}], [{"id": 2, "x": 5}])
    replayed(target, given)
    assert rows(tmp_path / "a.db", "SELECT id, x, more FROM t") == [(1, 1, "{}"), (2, 5, "{}")]
    assert told(verified(target, given)) == (3, 0, 0)


def test_a_key_is_what_sqlite_takes_for_one(tmp_path: Path) -> None:
    made = "CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, x, _partition TEXT, _offset TEXT)"
    target = table(tmp_path, "update", made)
    given = slices_of([{"id": "a", "x": 1}, {"id": 5, "x": 1}], [{"id": "A", "x": 2}, {"id": "5"}])
    replayed(target, given)
    assert told(verified(target, given)) == (4, 0, 0)
    rows(tmp_path / "a.db", "UPDATE t SET x = 3 WHERE id = 'A'")
    assert told(verified(target, given)) == (2, 2, 0)


@pytest.mark.parametrize("rule", [None, "update", "ignore"])
def test_a_collation_hides_no_change_of_a_text(tmp_path: Path, rule: str | None) -> None:
    made = """CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, x TEXT COLLATE NOCASE,
    y TEXT COLLATE RTRIM, _topic COLLATE NOCASE, _partition, _offset)"""
    given = slices_of([{"id": "Abc", "x": "Abc", "y": "x"}, {"id": "b", "x": 5}])
    if rule is not None:  # The row has the last spelling of the key under `update`, else the first.
        given = {**given, **slices_of([{"id": "aBc", "x": "Abc", "y": "x"}], start=10)}
    target, count = table(tmp_path, rule, made), 3 if rule else 2
    replayed(target, given)
    [(kept,)] = rows(tmp_path / "a.db", "SELECT id FROM t WHERE id = 'abc'")
    assert kept == ("aBc" if rule == "update" else "Abc")
    assert told(verified(target, given)) == (count, 0, 0)
    for change, back in [("x = 'aBC'", "x = 'Abc'"), ("y = 'x  '", "y = 'x'"), ("id = 'ABC'", "")]:
        rows(tmp_path / "a.db", f"UPDATE t SET {change} WHERE id = 'abc'")
        found = verified(target, given)
        assert told(found) == (1, count - 1, 0), change
        assert kinds(found) == {"changed": 1}
        assert found.expected_checksum != found.found_checksum
        if back:
            rows(tmp_path / "a.db", f"UPDATE t SET {back} WHERE id = 'abc'")


@pytest.mark.parametrize("rule", ["update", "ignore", None])
def test_a_record_that_was_refused_excuses_no_other_row(tmp_path: Path, rule: str | None) -> None:
    made = TABLE.replace("x,", "x CHECK (x IS NOT 'bad'),")
    target = table(tmp_path, rule, made)
    given = slices_of(GOOD, [{"id": 8, "x": "bad"}, {"id": 9}])
    replayed(target, given)
    count = len(rows(tmp_path / "a.db", "SELECT id FROM t"))
    assert told(verified(target, given)) == (count, 0, 0)
    rows(tmp_path / "a.db", "DELETE FROM t WHERE id = 9")
    assert told(verified(target, given)) == (count - 1, 1, 0)


def test_an_entry_that_only_counts_refused_records_leaves_one_untold(tmp_path: Path) -> None:
    target = table(tmp_path, None, TABLE.replace("x,", "x CHECK (x IS NOT 'bad'),"))
    given = slices_of([{"id": 8, "x": "bad"}, {"id": 9}])
    replayed(target, given)
    changed = (
        "UPDATE playhead_entries SET entry = json_set(entry, '$.details', json('{\"refused\": 1}'))"
    )
    rows(tmp_path / "a.db", changed)
    assert told(verified(target, given)) == (1, 0, 1)
    rows(tmp_path / "a.db", "DELETE FROM t WHERE id = 9")
    assert told(verified(target, given)) == (0, 2, 0)


DROPPING = "BEFORE INSERT ON t WHEN new.x = 'bad' BEGIN SELECT RAISE(IGNORE); END"


def counts_of(entry: Entry) -> dict[str, int]:
    return {name: each for name, each in entry.details.items() if isinstance(each, int)}


@pytest.mark.parametrize("rule", [None, "ignore", "update"])
def test_a_row_that_a_trigger_drops_is_not_kept(tmp_path: Path, rule: str | None) -> None:
    target = table(tmp_path, rule)
    rows(tmp_path / "a.db", f"CREATE TRIGGER x {DROPPING}")
    given = slices_of([{"id": 1}, {"id": 2, "x": "bad"}, {"id": 3}])
    replayed(target, given)
    [entry] = target.entries("r")
    assert (entry.written, entry.filtered) == (2, 1)
    assert counts_of(entry) == {"not_kept": 1, "dropped": 1}
    assert told(verified(target, given)) == (2, 0, 1)


def test_a_row_that_the_tables_own_rule_ignores_is_not_kept(tmp_path: Path) -> None:
    made = "CREATE TABLE t (id, u UNIQUE ON CONFLICT IGNORE, _partition, _offset, UNIQUE (id))"
    given = slices_of([{"id": 1, "u": 1}, {"id": 2, "u": 1}, {"id": 1, "u": 2}])
    target = table(tmp_path, "ignore", made)
    replayed(target, given)
    [entry] = target.entries("r")
    assert counts_of(entry) == {"not_kept": 1, "dropped": 1, "left_alone": 1}
    assert rows(tmp_path / "a.db", "SELECT id FROM t") == [(1,)]


@pytest.mark.parametrize(
    ("columns", "index", "is_refused"),
    [
        ("id TEXT COLLATE NOCASE, x", "t (id COLLATE BINARY)", True),
        ("id TEXT, x", "t (ID COLLATE nocase)", True),
        ("id TEXT COLLATE NOCASE, x, PRIMARY KEY (id COLLATE BINARY)", "t (x)", True),
        ("id TEXT COLLATE NOCASE PRIMARY KEY, x", "t (id COLLATE RTRIM)", True),
        ("id TEXT COLLATE NOCASE, x", "t (id COLLATE nocase)", False),
        ("id INTEGER PRIMARY KEY, x", "t (id)", False),
        ("id INTEGER PRIMARY KEY, x TEXT", "t (x COLLATE NOCASE)", False),
        ("id TEXT COLLATE NOCASE UNIQUE, x", "t (id COLLATE BINARY, x)", False),
        ("id TEXT COLLATE NOCASE UNIQUE, x", "t (id COLLATE BINARY) WHERE x", False),
    ],
)
@pytest.mark.parametrize("rule", [None, "ignore", "update"])
def test_an_index_that_compares_the_key_otherwise_is_refused(
    tmp_path: Path, columns: str, index: str, is_refused: bool, rule: str | None
) -> None:
    """SQLite follows the rule by the index, and a row is looked up as its columns compare."""
    target = table(tmp_path, rule, f"CREATE TABLE t ({columns})")
    rows(tmp_path / "a.db", f"CREATE UNIQUE INDEX other ON {index}")
    seen = InspectRequest(SourceFacts("contract", {"t": TopicFacts()}), {"t": 1}, [])
    if is_refused and rule is not None:
        with pytest.raises(Refused, match="compares --key otherwise than its columns do"):
            target.inspect(seen)
    else:
        target.inspect(seen)


@pytest.mark.parametrize(
    ("made", "replaces"),
    [
        ("CREATE TABLE T (id INTEGER, x, UNIQUE (id) ON CONFLICT REPLACE)", True),
        ("create table t (id primary key on /* so */ conflict\n replace, x)", True),
        ("CREATE TABLE t (id UNIQUE, x NOT NULL ON CONFLICT REPLACE DEFAULT 1)", True),
        ("CREATE TABLE t (id UNIQUE ON \ufeffCONFLICT REPLACE, x)", True),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY ON/*'*/CONFLICT--'\n REPLACE, x)", True),
        ("CREATE TABLE t (id PRIMARY KEY ON CONFLICT REPLACE, x) WITHOUT ROWID", True),
        ("CREATE TABLE t (id UNIQUE ON CONFLICT IGNORE, x)", False),
        ("CREATE TABLE t (id UNIQUE, x DEFAULT 'ON CONFLICT REPLACE')", False),
        ('CREATE TABLE t (id UNIQUE, x, "on conflict replace", [on conflict  replace])', False),
        ("CREATE TABLE t (id UNIQUE, x -- ON CONFLICT REPLACE\n)", False),
        ("CREATE TABLE t (id UNIQUE ON CONFLICT FAIL, x)", False),
    ],
)
@pytest.mark.parametrize("rule", [None, "ignore", "update"])
def test_a_table_that_replaces_rows_by_itself_is_refused(
    tmp_path: Path, made: str, replaces: bool, rule: str | None
) -> None:
    target = table(tmp_path, rule, made)
    seen = InspectRequest(SourceFacts("contract", {"t": TopicFacts()}), {"t": 1}, [])
    if replaces:
        with pytest.raises(Refused, match="it is defined with ON CONFLICT REPLACE, and SQLite"):
            target.inspect(seen)
    else:
        target.inspect(seen)


@pytest.mark.parametrize(
    "parameter", ["$a(')", "@a(')", "#a('\xa0')", ":a::b(')", "$a::(')", "\ufeff$a(')"]
)
def test_a_parameter_hides_no_rule_of_a_table(tmp_path: Path, parameter: str) -> None:
    """SQLite takes one for NULL when it reads a file, and a quote in its parentheses begins no text."""
    target = table(tmp_path, None, "CREATE TABLE t (id DEFAULT (1), x UNIQUE ON CONFLICT REPLACE)")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        again = f"REPLACE DEFAULT ({parameter})"
        change = "UPDATE sqlite_master SET sql = replace(replace(sql, '1', ?), 'REPLACE', ?)"
        connection.execute(change, (parameter, again))
        connection.commit()
    seen = InspectRequest(SourceFacts("contract", {"t": TopicFacts()}), {"t": 1}, [])
    with pytest.raises(Refused, match="it is defined with ON CONFLICT REPLACE, and SQLite"):
        target.inspect(seen)


@pytest.mark.parametrize("rule", ["update", None])
def test_records_that_the_table_no_longer_takes_are_counted(
    tmp_path: Path, rule: str | None
) -> None:
    """With `--extra-fields fail`, a column that was dropped makes every record one to refuse."""
    target = table(tmp_path, rule)
    rules = replace(target.rules, extra_fields="fail")
    target = replace(target, rules=rules)
    given = slices_of(GOOD)
    replayed(target, given)
    rows(tmp_path / "a.db", "ALTER TABLE t DROP COLUMN x")
    rows(tmp_path / "a.db", "DELETE FROM t")
    [(slice_, values)], [entry] = given.items(), target.entries("r")
    with target.open("r") as writer:
        found = writer.compare(entry, records(slice_, values))
        [found] = [found] if found is not None else writer.conclude()
    told_of_run = with_refused(found, entry)
    assert (told_of_run.expected, *told(told_of_run)) == (5, 0, 0, 5)
    told_of_span = with_refused(found, Entry(slice_, 0, 0))
    assert (told_of_span.expected, *told(told_of_span)) == (5, 0, 0, 5)


def test_a_new_table_with_a_key_finds_the_row_of_a_record_without_reading_all(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.db"
    target = SqliteTarget(str(file), "{topic}", TableRules(key=("id",), create=True))
    shown = target.creates(
        {"tables": [{"table": "t", "columns": ["id", *METADATA], "key": ["id"]}]}
    )
    written(target, b'{"id": 1}')
    made = "SELECT sql FROM sqlite_master WHERE name NOT GLOB 'playhead_mark*' AND tbl_name = 't' AND sql > ''"
    assert [text.replace("IF NOT EXISTS ", "") for text in shown] == [
        text for (text,) in rows(file, made)
    ]
    where = "WHERE _topic = 't' AND _partition = 0 AND _offset = 0"
    [(*_, plan)] = rows(file, f"EXPLAIN QUERY PLAN SELECT id FROM t {where}")
    assert plan.startswith("SEARCH t USING INDEX playhead_offsets_t ")
