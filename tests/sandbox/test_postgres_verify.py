"""A comparison says what is so: straight after a commit nothing differs, whatever the types and keys."""

from typing import Any

import pytest

from playhead.ledger import Entry
from playhead.record import Slice
from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import Table, record

ALIKE = [
    ("public.citext", "bob", "Bob"),
    ("numeric", "1.5", "1.50"),
    ("interval", "24:00:00", "1 day"),
    ("jsonb", [1.0], {"n": 1}),
    ("float8", "0", "-0"),
    ("public.citext[]", ["bob"], ["Bob"]),
    ("numrange", "[1.5,2)", "[1.50,2)"),
    ("pair", "(1.5)", "(1.50)"),
    ("json", {"a": 1}, {"a": 2}),
    ("point", "(1,2)", "(1,3)"),
    ("bytea", "AP8=", "AP4="),
]


@pytest.mark.parametrize("rule", ["update", "newer"])
@pytest.mark.parametrize(("kind", "old", "new"), ALIKE, ids=lambda each: str(each)[:14])
def test_what_is_shown_otherwise_is_another_value(
    sandbox: Endpoints, schema: str, rule: Any, kind: str, old: Any, new: Any
) -> None:
    helper = Table.made(sandbox.database_url, schema, "id int", "helper")
    helper.run(
        f"""CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
            CREATE TYPE "{schema}".pair AS (n numeric)"""
    )
    kind = f'"{schema}".pair' if kind == "pair" else kind
    columns = f"id int PRIMARY KEY, v {kind}, version int"
    options = {"on_conflict": rule, "version_column": "version"}
    table = Table.made(sandbox.database_url, schema, columns, **options)
    table.commit([record(0, {"id": 1, "v": old, "version": 1})])
    rows = [record(1, {"id": 1, "v": new, "version": 1})]
    entry = table.commit(rows)
    assert entry.details["updated"] == 1
    assert table.differences(entry, rows) == []
    again = [record(2, {"id": 1, "v": new, "version": 1})]
    assert table.commit(again).details["left_alone"] == 1


def test_jsonb_numbers_keep_their_zeros(sandbox: Endpoints, schema: str) -> None:
    columns = "id int PRIMARY KEY, v jsonb"
    table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
    table.commit([record(0, b'{"id":1,"v":1.0}')])
    rows = [record(1, b'{"id":1,"v":1.00}')]
    entry = table.commit(rows)
    assert table.rows("v::text") == [("1.00",)]
    assert table.differences(entry, rows) == []


@pytest.mark.parametrize("rule", [None, "update", "newer"])
def test_a_table_of_many_columns(sandbox: Endpoints, schema: str, rule: Any) -> None:
    names = [f"c{number}" for number in range(1_570)]
    columns = ", ".join(f"{name} int" for name in names)
    place = "_topic text, _partition int, _offset int8"
    more = {"version_column": "c1"} if rule == "newer" else {}
    columns = f"id int PRIMARY KEY, {columns}, {place}"
    table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule, **more)
    rows = [record(0, {"id": 1, "c1": 1, "c7": 1}), record(1, {"id": 2, "c1": 1, "c1569": 1})]
    entry = table.commit(rows)
    assert table.differences(entry, rows) == []
    table.run("UPDATE {table} SET c7 = 2, c1569 = 2 WHERE id = 2")
    assert table.differences(entry, rows) == [("changed", 1)]
    if rule == "update":
        # Another partition has the key, and its record names another column.
        others = [record(0, {"id": 1, "c9": 1}, partition=1)]
        found = table.compared((entry, rows), (table.commit(others), others))
        assert [(each.same, each.different) for each in found] == [(1, 1), (1, 0)]


@pytest.mark.parametrize("key", ["UNIQUE", ""])
def test_a_table_of_many_columns_without_a_place(sandbox: Endpoints, schema: str, key: str) -> None:
    columns = ", ".join(f"c{number} int" for number in range(1_580))
    table = Table.made(sandbox.database_url, schema, f"id int {key}, {columns}")
    rows = [record(0, {"id": 1, "c7": 1}), record(1, {"id": 2, "c7": 5})]
    entry = table.commit(rows)
    assert table.differences(entry, rows) == []
    table.run("UPDATE {table} SET c7 = 2 WHERE id = 2")
    assert table.differences(entry, rows) == [("changed" if key else "missing", 1)]


def test_a_table_that_somebody_else_filled(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v text")
    table.run(
        f'DROP TABLE "{schema}".ledger; INSERT INTO {{table}} VALUES (1, %s)'.replace("%s", "'a'")
    )
    rows = [record(0, {"id": 1, "v": "a"}), record(1, {"id": 2, "v": "b"})]
    entry = Entry(Slice("cars", 0, 0, 2), 2, 2)
    for rule in (None, "update", "ignore"):
        found = table.with_options(on_conflict=rule).differences(entry, rows)
        assert found == [("missing", 1)], rule


class TestKeysThatARecordLeavesOpen:
    @pytest.mark.parametrize("place", ["", ", _topic text, _partition int, _offset int8"])
    def test_null(self, sandbox: Endpoints, schema: str, place: str) -> None:
        table = Table.made(sandbox.database_url, schema, f"k int UNIQUE, v text{place}")
        rows = [record(0, {"k": 1, "v": "a"}), record(1, {"v": "b"}), record(2, {"v": "b"})]
        entry = table.commit(rows)
        assert table.differences(entry, rows) == []
        table.run("DELETE FROM {table} WHERE v = 'b'")
        assert table.differences(entry, rows) == [("missing", 1), ("missing", 2)]

    def test_where_none_does_rows_are_known_by_it(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "k int UNIQUE, v text")
        rows = [record(0, {"k": 1, "v": "a"}), record(1, {"k": 2, "v": "b"})]
        entry = table.commit(rows)
        table.run("UPDATE {table} SET v = 'c' WHERE k = 2")
        assert table.differences(entry, rows) == [("changed", 1)]
