"""What a trigger or a rule of the table does not keep is not counted as written."""

from pathlib import Path
from typing import Any

import pytest

from playhead.postgres.errors import TableChanged
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.sandbox import Endpoints
from playhead.target import Writer
from playhead.testing import ListSource
from tests.sandbox.postgres_table import REPLAY, Table, account_of, record, records
from tests.sandbox.test_postgres_order import inspected, last_first
from tests.unit.replaying import runner, whole_plan

DROPS = """
CREATE FUNCTION "{schema}".drops() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN IF NEW.v = 'no' THEN RETURN NULL; END IF; RETURN NEW; END$$;
CREATE TRIGGER drops BEFORE INSERT OR UPDATE ON {{table}} FOR EACH ROW EXECUTE FUNCTION "{schema}".drops()
"""
VALUES = [{"id": n, "v": "no" if n % 3 == 0 else "yes"} for n in range(9)]


def made(sandbox: Endpoints, schema: str, columns: str, more: str, **options: Any) -> Table:
    table = Table.made(sandbox.database_url, schema, columns, **options)
    table.run(more.format(schema=schema))
    return table


@pytest.mark.parametrize("rule", [None, "ignore", "update", "error"])
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_rows_that_a_trigger_drops(sandbox: Endpoints, schema: str, rule: Any, key: str) -> None:
    if rule is not None and not key:
        pytest.skip("rules for conflicts need a key")
    table = made(sandbox, schema, f"id int {key}, v text", DROPS, on_conflict=rule)
    entry = table.commit(records(*VALUES))
    assert len(table.rows()) == 6
    assert (entry.read, entry.written, entry.filtered) == (9, 6, 3)
    counts = {"inserted": 6, "updated": 0, "left_alone": 0, "not_kept": 3}
    assert entry.details == {"way": "staged"} | counts


def test_a_row_that_was_there_is_left_alone(sandbox: Endpoints, schema: str) -> None:
    """An update that the trigger drops leaves a row, which is not the record's and not missing."""
    table = made(sandbox, schema, "id int PRIMARY KEY, v text", DROPS, on_conflict="update")
    table.commit(records({"id": 1, "v": "old"}))
    entry = table.commit(records({"id": 1, "v": "no"}, {"id": 2, "v": "no"}, start=1))
    assert table.rows() == [(1, "old")]
    assert (entry.written, entry.filtered, entry.details["left_alone"]) == (1, 1, 1)


def test_refused_rows_are_not_counted_twice(sandbox: Endpoints, schema: str) -> None:
    columns = "id int PRIMARY KEY, v text CHECK (v <> 'bad')"
    table = made(sandbox, schema, columns, DROPS, on_conflict="update")
    rows = records({"id": 1, "v": "no"}, {"id": 2, "v": "bad"}, {"id": 3, "v": "yes"})
    entry = table.commit(rows, rule="skip")
    assert (entry.written, entry.filtered, entry.skipped) == (1, 1, 1)
    assert (entry.details["left_alone"], entry.details["not_kept"]) == (0, 1)


def test_rows_that_a_partitions_own_trigger_drops(sandbox: Endpoints, schema: str) -> None:
    parts = """
    CREATE TABLE "{schema}".low PARTITION OF {{table}} FOR VALUES FROM (0) TO (5);
    CREATE TABLE "{schema}".high PARTITION OF {{table}} FOR VALUES FROM (5) TO (99);
    """
    on_low = DROPS.replace("ON {{table}}", 'ON "{schema}".low')
    columns = "id int, v text) PARTITION BY RANGE (id"
    table = made(sandbox, schema, columns, parts + on_low)
    entry = table.commit(records(*VALUES))
    assert len(table.rows()) == 7
    assert (entry.written, entry.filtered) == (7, 2)


def test_rows_that_a_rule_does_away_with(sandbox: Endpoints, schema: str) -> None:
    """COPY would go past the rule."""
    rule = "CREATE RULE drops AS ON INSERT TO {{table}} WHERE NEW.v = 'no' DO INSTEAD NOTHING"
    table = made(sandbox, schema, "id int, v text", rule)
    entry = table.commit(records(*VALUES))
    assert len(table.rows()) == 6
    assert (entry.written, entry.details["not_kept"]) == (6, 3)


def test_a_trigger_that_comes_while_a_replay_runs(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, "id int, v text")
    slices = [records(*VALUES), records(*VALUES, start=9)]

    def commit(writer: Writer, rows: list[Record]) -> None:
        slice_ = Slice("cars", 0, rows[0].offset, rows[-1].offset + 1)
        writer.commit(account_of(slice_, rows), [Records.of(rows)])

    with table.target.open(REPLAY) as writer:
        commit(writer, slices[0])
        table.run(DROPS.format(schema=schema))
        with pytest.raises(TableChanged, match="may drop rows"):
            commit(writer, slices[1])
    assert table.commit(slices[1]).written == 6


def test_the_proof_says_so(sandbox: Endpoints, schema: str, tmp_path: Path) -> None:
    table = made(sandbox, schema, "id int PRIMARY KEY, v text", DROPS)
    source = ListSource([record(n, value) for n, value in enumerate(VALUES)])
    plan = whole_plan(source, replay_id="anew", target=inspected(table, source))
    proof = runner(plan, source, table.target, tmp_path, run_job=last_first).run()
    assert proof.adds_up
    assert (proof.total("written"), proof.total("filtered")) == (6, 3)
    [told] = [note.text for note in proof.notes if note.code == "not-kept"]
    assert told.startswith("3 filtered records were written but not kept by the target")
