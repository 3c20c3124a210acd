"""What a proof says of rows in a SQLite table that triggers and foreign keys do not keep."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playhead.detail_notes import notes_of_details
from playhead.errors import PlayheadError
from playhead.request import TableRules
from playhead.sqlite.session import Session
from playhead.sqlite.target import SqliteKeptRows, SqliteTarget, count_converted
from playhead.tables.row_table import RowTable
from tests.unit.test_sqlite import rows
from tests.unit.test_sqlite_compared import counts_of, replayed, slices_of, table, told, verified

RULES = pytest.mark.parametrize("rule", [None, "ignore", "update"])
KEYED = "CREATE TABLE t (id INTEGER PRIMARY KEY, x, _topic, _partition, _offset)"
BARE = "CREATE TABLE t (id, x)"
PLACED = "CREATE TABLE t (id, x, _partition TEXT, _offset TEXT)"
NEWEST = "AFTER INSERT ON t BEGIN DELETE FROM t WHERE id < new.id - 2; END"
THREES = slices_of(*([{"id": n + m} for m in range(3)] for n in (0, 3, 6)))


def made_of(rule: str | None) -> str:
    return KEYED if rule else PLACED


def counts(target: Any) -> list[tuple[int, int, int]]:
    """Of each slice, how many records are written and filtered, and how many older rows are gone."""
    return [
        (each.written, each.filtered, each.details.get("also_removed", 0))
        for each in target.entries("r")
    ]


def triggered(tmp_path: Path, rule: str | None, made: str, *triggers: str) -> Any:
    target = table(tmp_path, rule, made)
    for n, each in enumerate(triggers):
        rows(tmp_path / "a.db", f"CREATE TRIGGER x{n} {each}")
    return target


@RULES
@pytest.mark.parametrize("made", [KEYED, PLACED, BARE, f"{KEYED} WITHOUT ROWID"])
@pytest.mark.parametrize("deletes", ["id = new.id", "x = 'bad'"])
def test_a_new_row_that_a_trigger_deletes_is_not_written(
    tmp_path: Path, rule: str | None, made: str, deletes: str
) -> None:
    if rule and "KEY" not in made:
        pytest.skip("rules for conflicts need a key")
    when = f"AFTER INSERT ON t WHEN new.x = 'bad' BEGIN DELETE FROM t WHERE {deletes}; END"
    target = triggered(tmp_path, rule, made, when)
    bad = [{"id": n, "x": "bad"} for n in (2, 3)]
    given = slices_of([{"id": 1}, *bad, {"id": 4}, {"id": 5, "x": "bad"}])
    replayed(target, given)
    assert rows(tmp_path / "a.db", "SELECT id FROM t") == [(1,), (4,)]
    assert counts(target) == [(2, 3, 0)]
    [entry] = target.entries("r")
    assert counts_of(entry) == {"not_kept": 3, "dropped": 3}
    [note] = notes_of_details(counts_of(entry))
    assert note.text.startswith("3 filtered records were written but not kept by the target: a tri")
    if made != BARE:
        assert told(verified(target, given)) == (2, 0, 3)


@RULES
def test_a_row_that_a_trigger_drops_is_still_not_written(tmp_path: Path, rule: str | None) -> None:
    drops = "BEFORE INSERT ON t WHEN new.x = 'bad' BEGIN SELECT RAISE(IGNORE); END"
    deletes = "AFTER INSERT ON t WHEN new.x = 'worse' BEGIN DELETE FROM t WHERE id = new.id; END"
    target = triggered(tmp_path, rule, made_of(rule), drops, deletes)
    replayed(target, slices_of([{"id": 1}, {"id": 2, "x": "bad"}, {"id": 3, "x": "worse"}]))
    assert rows(tmp_path / "a.db", "SELECT id FROM t") in ([(1,)], [("1",)])
    assert counts(target) == [(1, 2, 0)]


@RULES
def test_rows_of_earlier_slices_that_a_trigger_removes(tmp_path: Path, rule: str | None) -> None:
    target = triggered(tmp_path, rule, made_of(rule), NEWEST)
    replayed(target, THREES)
    assert len(rows(tmp_path / "a.db", "SELECT id FROM t")) == 3
    assert counts(target) == [(3, 0, 0), (3, 0, 3), (3, 0, 3)]
    assert notes_of_details({"also_removed": 6})[0].code == "also-removed"
    found = verified(target, THREES)
    assert (found.same, found.different) == (3, 6)


@RULES
def test_a_trigger_that_ends_the_others_hides_no_deletion(tmp_path: Path, rule: str | None) -> None:
    ends = "AFTER DELETE ON t BEGIN SELECT RAISE(IGNORE); END"
    target = triggered(tmp_path, rule, made_of(rule), NEWEST, ends)
    replayed(target, THREES)
    gone = 9 - len(rows(tmp_path / "a.db", "SELECT id FROM t"))
    assert gone
    assert sum(filtered + also for _, filtered, also in counts(target)) == gone


def test_without_a_place_a_removed_row_counts_as_one_of_the_slice_that_removes_it(
    tmp_path: Path,
) -> None:
    target = triggered(tmp_path, None, BARE, NEWEST)
    replayed(target, THREES)
    assert counts(target) == [(3, 0, 0), (0, 3, 0), (0, 3, 0)]


def test_a_row_whose_place_was_changed_before_its_deletion_is_not_written(tmp_path: Path) -> None:
    deletes = "AFTER INSERT ON t BEGIN UPDATE t SET _offset = NULL; DELETE FROM t; END"
    target = triggered(tmp_path, None, PLACED, deletes)
    replayed(target, slices_of([{"id": 1}, {"id": 2}]))
    assert counts(target) == [(0, 2, 0)]


@RULES
def test_rows_that_a_foreign_key_removes_with_another(tmp_path: Path, rule: str | None) -> None:
    columns = "x REFERENCES cars ON DELETE CASCADE,"
    target = table(tmp_path, rule, made_of(rule).replace("x,", columns))
    retired = "WHEN new.id = 4 BEGIN DELETE FROM cars WHERE car = new.x; END"
    for statement in (
        "CREATE TABLE cars (car PRIMARY KEY)",
        "INSERT INTO cars VALUES ('a'), ('b')",
        f"CREATE TRIGGER r AFTER INSERT ON t {retired}",
    ):
        rows(tmp_path / "a.db", statement)
    parts = ({"id": 1, "x": "a"}, {"id": 2, "x": "b"}), ({"id": 3, "x": "a"}, {"id": 4, "x": "a"})
    given = slices_of(*parts, [{"id": 5}])
    replayed(target, given)
    assert len(rows(tmp_path / "a.db", "SELECT 1 FROM t")) == 2
    assert counts(target) == [(2, 0, 0), (0, 2, 1), (1, 0, 0)]


def test_an_updated_row_that_a_trigger_deletes_is_not_written(tmp_path: Path) -> None:
    deletes = "AFTER UPDATE ON t WHEN new.x = 'done' BEGIN DELETE FROM t WHERE id = new.id; END"
    target = triggered(tmp_path, "update", KEYED, deletes)
    done = {"id": 1, "x": "done"}
    given = slices_of([{"id": 1}, {"id": 2}], [{"id": 1}, done, {"id": 3}], [done, done])
    replayed(target, given)
    # The key of the second slice is of two records; in the last one, its row is new and then done.
    assert counts(target) == [(2, 0, 0), (1, 2, 0), (0, 2, 0)]
    assert rows(tmp_path / "a.db", "SELECT id FROM t") == [(2,), (3,)]


def test_a_trigger_of_another_table_that_an_update_reaches(tmp_path: Path) -> None:
    made = KEYED.replace("x,", "x UNIQUE,")
    target = triggered(tmp_path, "update", made)
    for statement in (
        "CREATE TABLE laps (x REFERENCES t (x) ON UPDATE CASCADE)",
        "CREATE TRIGGER r AFTER UPDATE ON laps BEGIN DELETE FROM t WHERE id = 2; END",
    ):
        rows(tmp_path / "a.db", statement)
    replayed(target, slices_of([{"id": 1, "x": "a"}, {"id": 2}]))
    rows(tmp_path / "a.db", "INSERT INTO laps VALUES ('a')")
    more = slices_of([{"id": 1, "x": "b"}], start=10)
    replayed(target, more)
    assert counts(target) == [(2, 0, 0), (1, 0, 1)]


@RULES
def test_a_deletion_that_is_undone_is_none(tmp_path: Path, rule: str | None) -> None:
    undone = "DELETE FROM t; SELECT RAISE(ABORT, 'no')"
    undoes = f"AFTER INSERT ON t WHEN new.id = 3 BEGIN {undone}; END"
    target = triggered(tmp_path, rule, made_of(rule), undoes)
    replayed(target, slices_of([{"id": 1}], [{"id": 2}, {"id": 3}, {"id": 4}]))
    assert counts(target) == [(1, 0, 0), (2, 0, 0)]
    assert counts_of(target.entries("r")[1]) == {}
    assert len(target.entries("r")[1].details["refused"]) == 1


def test_under_ignore_the_row_that_was_left_alone_is_no_longer_there(tmp_path: Path) -> None:
    deletes = "AFTER INSERT ON t WHEN new.id = 9 BEGIN DELETE FROM t WHERE id < 9; END"
    target = triggered(tmp_path, "ignore", KEYED, deletes)
    replayed(target, slices_of([{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 9}]))
    assert counts(target) == [(2, 0, 0), (1, 1, 1)]


def test_a_row_that_is_there_again_is_written(tmp_path: Path) -> None:
    again = "BEFORE INSERT ON t BEGIN DELETE FROM t WHERE id = new.id; END"
    target = triggered(tmp_path, "update", KEYED, again)
    given = slices_of([{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 1}])
    replayed(target, given)
    assert counts(target) == [(2, 0, 0), (2, 0, 0)]
    assert told(verified(target, given)) == (4, 0, 0)


@RULES
@pytest.mark.parametrize("chained", [False, True])
def test_rows_that_a_trigger_replaces(tmp_path: Path, rule: str | None, chained: bool) -> None:
    """SQLite fires no trigger for the rows that REPLACE deletes."""
    made = (KEYED if rule else PLACED).replace("x,", "x UNIQUE,")
    values = "(id, x) SELECT -new.id, 'one' WHERE new.id > 3"
    triggers = [f"AFTER INSERT ON t WHEN new.id > 0 BEGIN INSERT OR REPLACE INTO t {values}; END"]
    if chained:
        triggers = [
            "AFTER INSERT ON t WHEN new.id > 0 BEGIN REPLACE INTO o VALUES (new.id); END",
            f"AFTER INSERT ON o BEGIN INSERT INTO t {values}; END",
        ]
    target = triggered(tmp_path, rule, made)
    rows(tmp_path / "a.db", "CREATE TABLE o (id)")
    triggered(tmp_path, rule, made, *triggers)
    replayed(target, slices_of([{"id": 1}, {"id": 2, "x": "one"}], [{"id": 4}, {"id": 5}]))
    # SQLite does not say which rows: those of the trigger count too, and without a key as of the slice.
    assert counts(target)[0] == (2, 0, 0)
    assert counts(target)[1] == ((2, 0, 2) if rule else (0, 2, 0))


@RULES
def test_triggers_that_delete_nothing_change_no_count(tmp_path: Path, rule: str | None) -> None:
    notes = "AFTER INSERT ON t BEGIN INSERT OR REPLACE INTO latest VALUES (new.id); END"
    changes = "AFTER INSERT ON t BEGIN UPDATE t SET x = replace(x, 'a', 'b') WHERE id = new.id; END"
    target = triggered(tmp_path, rule, made_of(rule), notes, changes)
    rows(tmp_path / "a.db", "CREATE TABLE latest (id PRIMARY KEY)")
    replayed(target, slices_of([{"id": 1}, {"id": 2}], [{"id": 3}, {"id": 4, "x": "a"}]))
    assert counts(target) == [(2, 0, 0), (2, 0, 0)]
    assert all(counts_of(entry) == {} for entry in target.entries("r"))


@RULES
def test_a_table_without_triggers_is_not_watched(rule: str | None) -> None:
    statements: list[str] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(KEYED)
        connection.execute("CREATE TABLE other (a REFERENCES t)")
        connection.execute("CREATE TRIGGER r AFTER INSERT ON other BEGIN DELETE FROM t; END")
        session = Session(connection)
        found = SqliteTarget("", "t", TableRules(key=("id",), on_conflict=rule)).find(session, "t")
        assert found is not None
        connection.set_trace_callback(statements.append)
        kept = SqliteKeptRows(session, found)
        kept.add({"id": 1})
        assert kept.missing() == (0, 0)
    assert not [each for each in statements if not each.startswith(("SELECT", "-- PRAGMA"))]


FAILS = ("INSERT INTO seen VALUES (new.x)", "SELECT RAISE(FAIL, 'no') WHERE new.x = 'bad'")


@RULES
@pytest.mark.parametrize("fails", FAILS)
def test_a_refused_record_has_no_row_also_where_a_trigger_fails_without_undoing_it(
    tmp_path: Path, rule: str | None, fails: str
) -> None:
    after = f"AFTER INSERT ON t BEGIN {fails}; END"
    rows(tmp_path / "a.db", "CREATE TABLE seen (x UNIQUE ON CONFLICT FAIL)")
    rows(tmp_path / "a.db", "INSERT INTO seen VALUES ('bad')")
    rows(tmp_path / "a.db", made_of(rule))
    target = triggered(tmp_path, rule, "", after)
    given = slices_of([{"id": 1, "x": 1}, {"id": 2, "x": "bad"}, {"id": 3, "x": 3}])
    replayed(target, given)
    [entry] = target.entries("r")
    assert (entry.written, entry.skipped) == (2, 1)
    assert rows(tmp_path / "a.db", "SELECT id FROM t") == [(1,), (3,)]
    assert told(verified(target, given)) == (2, 0, 0)


def test_a_row_that_a_trigger_leaves_is_written_although_an_older_copy_of_it_is_deleted(
    tmp_path: Path,
) -> None:
    older = "DELETE FROM t WHERE id = new.id AND rowid < new.rowid"
    target = triggered(tmp_path, None, PLACED, f"AFTER INSERT ON t BEGIN {older}; END")
    replayed(target, THREES)
    replayed(target, THREES, "again")
    found = target.entries("again")
    assert [(each.written, each.filtered) for each in found] == [(3, 0)] * 3
    assert [each.details["also_removed"] for each in found] == [3, 3, 3]


def test_a_column_that_only_refused_records_fill_is_not_written(tmp_path: Path) -> None:
    made = "CREATE TABLE t (id CHECK (id > 0), x, y, _partition, _offset)"
    target = table(tmp_path, None, made)
    replayed(target, slices_of([{"id": 1, "x": 1}, {"id": -1, "y": 1}]))
    [entry] = target.entries("r")
    assert sorted(entry.details["columns"]) == ["_offset", "_partition", "id", "x"]


ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"


@RULES
@pytest.mark.parametrize(
    "does", [f"SELECT count(*) FROM ({ENDLESS})", f"DELETE FROM other WHERE 0 IN ({ENDLESS})"]
)
def test_a_row_whose_trigger_has_no_end_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str | None, does: str
) -> None:
    monkeypatch.setattr("playhead.sqlite.session._WRITES_S", 0.2)
    target = triggered(tmp_path, rule, made_of(rule), f"AFTER INSERT ON t BEGIN {does}; END")
    rows(tmp_path / "a.db", "CREATE TABLE other (n)")
    rows(tmp_path / "a.db", "INSERT INTO other VALUES (1)")
    with pytest.raises(PlayheadError, match=r"writing a row to .*a\.db took over 0.2 s") as error:
        replayed(target, slices_of([{"id": 1}]))
    assert error.value.hint is not None
    assert "triggers" in error.value.hint
    assert rows(tmp_path / "a.db", "SELECT * FROM t") == []
    assert target.entries("r") == []


@RULES
@pytest.mark.parametrize("named", ["u", "U"])
@pytest.mark.parametrize(
    "does",
    [
        "DELETE FROM u WHERE id = new.id",
        "DELETE FROM u WHERE id > 1",
        "INSERT OR REPLACE INTO u (id) SELECT id + 10 FROM u",
        "INSERT OR REPLACE INTO u (n, id) VALUES (2, 9)",
    ],
)
def test_rows_that_a_trigger_removes_from_the_table_of_another_replay(
    tmp_path: Path, rule: str | None, named: str, does: str
) -> None:
    """As with one table for each topic: the entries of that replay count them as written."""
    rows(tmp_path / "a.db", f"CREATE TABLE {named} (n INTEGER PRIMARY KEY, id)")
    other = replace(table(tmp_path, None), table="u")
    replayed(other, slices_of([{"id": 1}, {"id": 2}, {"id": 3}]), "before")
    rows(tmp_path / "a.db", made_of(rule))
    target = triggered(tmp_path, rule, "", f"AFTER INSERT ON t WHEN new.id = 2 BEGIN {does}; END")
    replayed(target, slices_of([{"id": 1}, {"id": 2}], [{"id": 3}]))
    left = {row[0] for row in rows(tmp_path / "a.db", "SELECT id FROM u")}
    gone = len({1, 2, 3} - left)
    assert counts(target) == [(2, 0, gone), (1, 0, 0)]


@RULES
@pytest.mark.parametrize("parameter", ["$a::(')", "\ufeff$a(')"])
def test_a_parameter_hides_no_trigger_that_replaces_rows(
    tmp_path: Path, rule: str | None, parameter: str
) -> None:
    made = (KEYED if rule else PLACED).replace("x,", "x UNIQUE,")
    replaces = "SELECT 999; INSERT OR REPLACE INTO t (id, x) VALUES (9, 'a'); SELECT ''"
    target = triggered(
        tmp_path, rule, made, f"AFTER INSERT ON t WHEN new.id = 2 BEGIN {replaces}; END"
    )
    changed(tmp_path / "a.db", "sql = replace(sql, '999', ?)", parameter)
    replayed(target, slices_of([{"id": 1, "x": "a"}], [{"id": 2}]))
    assert counts(target) == [(1, 0, 0), ((1, 0, 1) if rule else (0, 1, 0))]


def changed(file: Path, schema: str, *values: str) -> None:
    """Change the texts of a schema, as only one who writes into the file itself can."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"UPDATE sqlite_master SET {schema}", values)
        connection.commit()


def test_a_table_whose_name_differs_beyond_ascii_is_another_one_to_sqlite(tmp_path: Path) -> None:
    rows(tmp_path / "a.db", 'CREATE TABLE "\u00c9" (id)')
    rows(tmp_path / "a.db", 'CREATE TABLE "\u00e9" (id)')
    upper, lower = (replace(table(tmp_path, None), table=name) for name in "\u00c9\u00e9")
    replayed(upper, slices_of([{"id": 1}, {"id": 2}]), "before")
    rows(
        tmp_path / "a.db",
        'CREATE TRIGGER x AFTER INSERT ON "\u00e9" BEGIN DELETE FROM "\u00c9"; END',
    )
    replayed(lower, slices_of([{"id": 1}]))
    assert counts(lower) == [(1, 0, 2)]


@pytest.mark.parametrize(
    ("columns", "count"),
    [
        ("id INTEGER PRIMARY KEY, x", 1),
        ("id integer, x, PRIMARY KEY (id)", 1),
        ("id INT PRIMARY KEY, x", 0),
        ("id INTEGER, x, PRIMARY KEY (id, x)", 0),
    ],
)
def test_a_null_that_becomes_a_number_is_counted(columns: str, count: int) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t ({columns})")
        many = [{"id": None, "x": 1}, {"id": 7, "x": 1}, {"x": 1}]
        t = RowTable("t", {"id": "INTEGER"}, (), "", TableRules())
        assert count_converted(Session(connection), t, many) == count
