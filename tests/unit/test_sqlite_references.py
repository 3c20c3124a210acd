"""Foreign keys of a SQLite table that are checked only when a slice is committed."""

from pathlib import Path

import pytest

from playhead.account import ErrorRule, RecordRefused
from playhead.request import TableRules
from playhead.sqlite.target import SqliteTarget
from tests.unit.test_sqlite import rows, written

DEFERRED = "DEFERRABLE INITIALLY DEFERRED"


@pytest.mark.parametrize("rule", [None, "update", "ignore"])
def test_a_reference_that_is_checked_at_the_end_takes_its_record_alone(
    tmp_path: Path, rule: str | None
) -> None:
    file = tmp_path / "a.db"
    rows(file, "CREATE TABLE p (id INTEGER PRIMARY KEY)")
    rows(file, "INSERT INTO p VALUES (7)")
    rows(
        file,
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, up INTEGER REFERENCES t {DEFERRED}, p REFERENCES p(id) {DEFERRED},"
        " _partition INTEGER, _offset INTEGER)",
    )
    target = SqliteTarget(str(file), "t", TableRules(on_conflict=rule))
    values = [
        *(b'{"id": 1, "up": 5}', b'{"id": 2, "p": 8}', b'{"id": 3, "p": 7}', b'{"id": 4, "up": 2}'),
        *(b'{"id": 5}', b'{"id": 6, "up": 4, "p": null}', b'{"id": 9, "up": 9}'),
    ]
    written(target, *values, rule=ErrorRule("skip"))
    (entry,) = target.entries("r")
    assert (entry.written, entry.skipped, entry.details["refused"]) == (4, 3, [1, 3, 5])
    assert rows(file, "SELECT id FROM t ORDER BY id") == [(1,), (3,), (5,), (9,)]


def test_under_fail_it_names_its_record(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    rows(file, f"CREATE TABLE t (id PRIMARY KEY, up REFERENCES t {DEFERRED}, _partition, _offset)")
    target = SqliteTarget(str(file), "t")
    with pytest.raises(RecordRefused, match="offset 1.*refers to a row that does not exist"):
        written(target, b'{"id": 1, "up": 2}', b'{"id": 3, "up": 4}', b'{"id": 2}')
    assert rows(file, "SELECT id FROM t") == []
    assert target.entries("r") == []


def test_keys_of_several_columns_and_of_other_types(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    rows(file, "CREATE TABLE p (a TEXT COLLATE NOCASE, b INTEGER, PRIMARY KEY (b, a))")
    rows(file, "INSERT INTO p VALUES ('X', 1)")
    rows(
        file,
        "CREATE TABLE t (id, n, c, _partition, _offset, "
        f"FOREIGN KEY (n, c) REFERENCES p {DEFERRED})",
    )
    target = SqliteTarget(str(file), "t")
    values = [
        b'{"id": 1, "n": "1", "c": "x"}',
        b'{"id": 2, "n": 1, "c": "y"}',
        b'{"id": 3, "n": 2}',
    ]
    written(target, *values, rule=ErrorRule("skip"))
    assert rows(file, "SELECT id FROM t ORDER BY id") == [(1,), (3,)]
