"""A comparison with a table that was altered after the run never says that all is well."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from playhead.ledger import Entry
from playhead.record import Record
from playhead.sandbox import Endpoints
from playhead.target import SliceComparison
from playhead.task.job import Job
from playhead.task.play import play
from playhead.task.slicer import Filter
from playhead.testing import ListSource
from tests.sandbox.postgres_table import REPLAY, Table, records

PLACED = ", _topic text, _partition int, _offset int8"
GONE = "DELETE FROM {table} WHERE id >= 2; ALTER TABLE {table} "
NARROWED = "ALTER x TYPE varchar(3) USING left(x, 3)"
ANOTHER = "ALTER x TYPE int USING 0"
VALUES = [{"id": n, "x": f"value{n}"} for n in range(5)]
TYPED = "int PRIMARY KEY, x text"


def compared(table: Table, entry: Entry, rows: Sequence[Record]) -> SliceComparison:
    """What a comparing task finds, as `verify` starts it."""
    compares = {entry.slice: replace(entry, checksum=None)}
    work = (((entry.slice,),),)
    job = Job(REPLAY, ListSource(rows), table.target, work, Filter(), compares=compares)
    [report] = play(job, 0)
    [found] = report.findings
    return found


@pytest.mark.parametrize(
    ("rule", "columns", "change"),
    [
        ("update", f"id {TYPED}", GONE + NARROWED),
        ("ignore", f"id {TYPED}", GONE + ANOTHER),
        ("update", f"id {TYPED}{PLACED}", GONE + ANOTHER),
        ("newer", f"id {TYPED}, _timestamp timestamptz", GONE + ANOTHER),
        (None, f"id {TYPED}", GONE + NARROWED),
        (None, f"id int, x text{PLACED}", GONE + ANOTHER),
        (None, "id int, x varchar(20)", "ALTER TABLE {table} ALTER x TYPE varchar(2) USING left(x, 2)"),
        (None, "id int, x text", GONE + "ADD CHECK (true), " + ANOTHER),
    ],
)  # fmt: skip
def test_records_that_the_table_no_longer_takes_are_counted(
    sandbox: Endpoints, schema: str, rule: Any, columns: str, change: str
) -> None:
    table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule)
    rows = records(*VALUES)
    entry = table.commit(rows)
    before = compared(table, entry, rows)
    assert (before.same, before.different, before.unknown) == (5, 0, 0)
    table.run(change)
    after = compared(table, entry, rows)
    assert (after.expected, after.same, after.different + after.unknown) == (5, 0, 5)


def test_records_that_a_domain_no_longer_takes_are_counted(sandbox: Endpoints, schema: str) -> None:
    helper = Table.made(sandbox.database_url, schema, "id int", "helper")
    helper.run(f'CREATE DOMAIN "{schema}".word AS text')
    columns = f'id int PRIMARY KEY, x "{schema}".word'
    table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
    rows = records(*VALUES)
    entry = table.commit(rows)
    table.run("DELETE FROM {table} WHERE id > 0")
    table.run(f"""ALTER DOMAIN "{schema}".word ADD CHECK (VALUE = 'value0')""")
    found = compared(table, entry, rows)
    assert (found.expected, found.same, found.unknown) == (5, 1, 4)
    assert [each.offset for each in found.differences] == [1, 2, 3, 4]


def test_records_that_were_refused_when_they_were_written_are_not_counted(
    sandbox: Endpoints, schema: str
) -> None:
    table = Table.made(sandbox.database_url, schema, f"id {TYPED}", on_conflict="update")
    rows = records(*VALUES, {"id": "no number"}, b"no JSON")
    entry = table.commit(rows, rule="skip")
    found = compared(table, entry, rows)
    assert (found.expected, found.same, found.unknown) == (5, 5, 0)


@pytest.mark.parametrize("rule", ["update", None])
def test_without_a_run_a_record_that_the_table_cannot_take_is_unknown(
    sandbox: Endpoints, schema: str, rule: Any
) -> None:
    table = Table.made(sandbox.database_url, schema, f"id {TYPED}", on_conflict=rule)
    rows = records(*VALUES, {"id": "no number"}, b"no JSON")
    entry = table.commit(rows, rule="skip")
    found = compared(table, Entry(entry.slice, 0, 0), rows)
    assert (found.expected, found.same, found.unknown) == (7, 5, 2)
    assert [(each.kind, each.offset) for each in found.differences][:2] == [
        ("unknown", 5),
        ("unknown", 6),
    ]
