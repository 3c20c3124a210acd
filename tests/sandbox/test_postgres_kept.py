"""What a trigger or a rule of the table does not keep is not counted as written."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from playhead.errors import Refused
from playhead.postgres.errors import TableChanged
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.sandbox import Endpoints
from playhead.target import Writer
from playhead.testing import ListSource
from tests.sandbox.postgres_table import NOON_MS, REPLAY, Table, account_of, record, records
from tests.sandbox.test_postgres_order import inspected, last_first
from tests.sandbox.test_postgres_settings import as_role
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


@pytest.mark.parametrize("where", ["", "WHERE NEW.v = 'no'"])
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_rows_that_a_rule_writes_to_another_table(
    sandbox: Endpoints, schema: str, key: str, where: str
) -> None:
    more = """CREATE TABLE "{schema}".other (LIKE {{table}}); CREATE RULE r AS ON INSERT TO {{table}} """
    more += f"""{where} DO INSTEAD INSERT INTO "{{schema}}".other VALUES (NEW.*)"""
    table = made(sandbox, schema, f"id int {key}, v text", more)
    entry = table.commit(records(*VALUES))
    assert len(table.rows()) == (6 if where else 0)
    assert (entry.read, entry.written, entry.filtered) == (9, len(table.rows()), 9 - entry.written)
    assert entry.details["not_kept"] == 9 - entry.written


def test_rows_that_a_rule_writes_to_a_part_of_the_table_are_written(
    sandbox: Endpoints, schema: str
) -> None:
    more = """CREATE TABLE "{schema}".part () INHERITS ({{table}}); CREATE RULE r AS ON INSERT TO {{table}}
        DO INSTEAD INSERT INTO "{schema}".part VALUES (NEW.*)"""
    table = made(sandbox, schema, "id int, v text", more)
    entry = table.commit(records(*VALUES))
    assert (len(table.rows()), entry.written, entry.filtered) == (9, 9, 0)


@pytest.mark.parametrize("rule", ["update", "newer"])
def test_an_update_that_a_trigger_drops(sandbox: Endpoints, schema: str, rule: Any) -> None:
    """The row that was there is not the record's, so the record is not written."""
    columns = "id int PRIMARY KEY, v text, n int, _timestamp timestamptz"
    table = made(sandbox, schema, columns, DROPS, on_conflict=rule)
    table.commit(records({"id": 1, "v": "old"}, {"id": 4, "v": "same", "n": 1}))
    table.run("UPDATE {table} SET _timestamp = '2021-08-04T12:30:00.005Z' WHERE id = 4")
    values: list[Any] = [{"id": 1, "v": "no"}, {"id": 2, "v": "no"}, {"id": 3, "v": "yes"}]
    # Not changed, and of several sets of columns.
    values += [{"id": 4, "v": "same", "n": 1}, {"id": 1, "n": 5}]
    rows = [record(n, value, ms=NOON_MS + n) for n, value in enumerate(values, start=2)]
    entry = table.commit(rows)
    assert table.rows("id, v, n") == [(1, "old", 5), (3, "yes", None), (4, "same", 1)]
    assert (entry.written, entry.filtered) == (3, 2)
    counts = {"inserted": 1, "updated": 1, "left_alone": 1, "not_kept": 2}
    assert {name: entry.details[name] for name in counts} == counts


def test_an_older_record_under_newer_is_left_alone(sandbox: Endpoints, schema: str) -> None:
    columns = "id int PRIMARY KEY, v text, _timestamp timestamptz"
    table = made(sandbox, schema, columns, DROPS, on_conflict="newer")
    table.commit([record(0, {"id": 1, "v": "new"}, ms=NOON_MS)])
    older = [record(1, {"id": 1, "v": "no"}, ms=NOON_MS - 5)]
    entry = table.commit([*older, record(2, {"id": 1, "v": "no"}, ms=NOON_MS - 4)])
    assert (entry.written, entry.filtered, entry.details["left_alone"]) == (2, 0, 2)


@pytest.mark.parametrize("rule", ["update", "newer"])
def test_a_row_that_a_trigger_changes_is_written(
    sandbox: Endpoints, schema: str, rule: Any
) -> None:
    changes = """
    CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN NEW.v = upper(NEW.v); RETURN NEW; END$$;
    CREATE TRIGGER t BEFORE INSERT OR UPDATE ON {{table}} FOR EACH ROW EXECUTE FUNCTION "{schema}".f()
    """
    columns = "id int PRIMARY KEY, v text, _timestamp timestamptz"
    table = made(sandbox, schema, columns, changes, on_conflict=rule)
    table.commit(records({"id": 1, "v": "a"}))
    entry = table.commit(records({"id": 1, "v": "b"}, {"id": 2, "v": "c"}, start=1))
    assert table.rows("id, v") == [(1, "B"), (2, "C")]
    assert (entry.written, entry.filtered) == (2, 0)


KEEPS = """
CREATE FUNCTION "{schema}".keeps() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
CREATE TRIGGER keeps BEFORE DELETE ON {{table}} FOR EACH ROW
WHEN (OLD.v = 'kept') EXECUTE FUNCTION "{schema}".keeps()
"""
KEEPS_BY_RULE = (
    "CREATE RULE keeps AS ON DELETE TO {{table}} WHERE OLD.v = 'kept' DO INSTEAD NOTHING"
)


@pytest.mark.parametrize(
    ("rule", "more"),
    [(None, KEEPS), ("ignore", KEEPS), ("update", KEEPS), ("newer", KEEPS), (None, KEEPS_BY_RULE)],
)
def test_rows_that_a_trigger_does_not_delete(
    sandbox: Endpoints, schema: str, rule: Any, more: str
) -> None:
    columns = "id int PRIMARY KEY, v text, _timestamp timestamptz"
    table = made(sandbox, schema, columns, more, on_conflict=rule, tombstones="delete")
    table.commit(records({"id": 1, "v": "kept"}, {"id": 2, "v": "gone"}, {"id": 3, "v": "kept"}))
    later = [record(3, None, key=b"1"), record(4, None, key=b"2"), record(5, None, key=b"9")]
    entry = table.commit(later)
    assert table.rows("id") == [(1,), (3,)]
    assert (entry.written, entry.filtered) == (2, 1)
    assert (entry.details["deleted"], entry.details["not_kept"]) == (1, 1)
    assert table.differences(entry, later) == [("extra", 3)]


AFTER = """
CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN DELETE FROM {{table}} WHERE v = 'no'; RETURN NULL; END$$;
CREATE {kind} TRIGGER t AFTER INSERT ON {{table}} {when} EXECUTE FUNCTION "{schema}".f()
"""


@pytest.mark.parametrize("rule", [None, "ignore", "update", "newer"])
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
@pytest.mark.parametrize(
    ("kind", "when"),
    [
        ("", "FOR EACH STATEMENT"),
        ("", "FOR EACH ROW"),
        ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"),
    ],
)
def test_rows_that_a_trigger_deletes_once_they_are_written(
    sandbox: Endpoints, schema: str, kind: str, when: str, key: str, rule: Any
) -> None:
    if rule is not None and not key:
        pytest.skip("rules for conflicts need a key")
    quoted = f'"{schema}".cars'
    more = AFTER.format(schema="{schema}", kind=kind, when=when).replace("{table}", quoted)
    columns = f"id int {key}, v text, _timestamp timestamptz"
    table = made(sandbox, schema, columns, more, on_conflict=rule)
    entry = table.commit(records(*VALUES))
    assert len(table.rows()) == 6
    assert (entry.written, entry.filtered) == (6, 3)
    counts = {"inserted": 6, "updated": 0, "left_alone": 0, "not_kept": 3}
    assert {name: entry.details[name] for name in counts} == counts


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_rows_that_a_trigger_deletes_while_the_role_counts_nothing(
    sandbox: Endpoints, schema: str, key: str
) -> None:
    more = AFTER.format(schema="{schema}", kind="", when="FOR EACH ROW")
    more = more.replace("{table}", f'"{schema}".cars')
    rule = "update" if key else None
    table = made(sandbox, schema, f"id int {key}, v text", more, on_conflict=rule)
    source = ListSource([record(n, value) for n, value in enumerate(VALUES)])
    with as_role(table, track_counts="off") as theirs:
        for write in (
            lambda: inspected(theirs, source),
            lambda: theirs.commit(records(*VALUES)),
        ):
            with pytest.raises(Refused, match="track_counts is off for this user") as refused:
                write()
            assert "ALTER ROLE" in str(refused.value.hint)
        assert table.rows() == []
        table.run(f"ALTER ROLE {sql.Identifier(schema[-40:]).as_string()} SUPERUSER")
        inspected(theirs, source)
        entry = theirs.commit(records(*VALUES))
    assert len(table.rows()) == 6
    assert (entry.written, entry.filtered, entry.details["not_kept"]) == (6, 3, 3)


KEEPS_NEWEST = """
CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN DELETE FROM "{schema}".cars WHERE id < NEW.id - 2; RETURN NULL; END$$;
CREATE TRIGGER t AFTER INSERT ON {{table}} FOR EACH ROW EXECUTE FUNCTION "{schema}".f()
"""


@pytest.mark.parametrize("rule", [None, "update", "ignore", "newer"])
def test_rows_of_earlier_slices_that_a_trigger_removes(
    sandbox: Endpoints, schema: str, rule: Any
) -> None:
    columns = f"id int {'PRIMARY KEY' if rule else ''}, v text, _timestamp timestamptz"
    table = made(sandbox, schema, columns, KEEPS_NEWEST, on_conflict=rule)
    entries = [
        table.commit(records(*({"id": start + n} for n in range(3)), start=start))
        for start in (0, 3, 6)
    ]
    assert table.rows("id") == [(6,), (7,), (8,)]
    if rule is None:  # Without a key, a removed row counts as one of the slice that removes it.
        assert [entry.written for entry in entries] == [3, 0, 0]
    else:
        assert [entry.written for entry in entries] == [3, 3, 3]
        assert [entry.details.get("also_removed", 0) for entry in entries] == [0, 3, 3]


@pytest.mark.parametrize("is_direct", [True, False], ids=["itself", "by another table"])
@pytest.mark.parametrize("rule", [None, "update", "newer"])
def test_rows_that_a_foreign_key_removes_with_another(
    sandbox: Endpoints, schema: str, rule: Any, is_direct: bool
) -> None:
    columns = "id int PRIMARY KEY, parent int, _timestamp timestamptz"
    cascade = "ON DELETE CASCADE DEFERRABLE"
    more = f"ALTER TABLE {{{{table}}}} ADD FOREIGN KEY (parent) REFERENCES {{{{table}}}} {cascade}"
    if not is_direct:
        more = f"""CREATE TABLE "{{schema}}".b (id int PRIMARY KEY REFERENCES {{{{table}}}} {cascade});
        ALTER TABLE {{{{table}}}} ADD FOREIGN KEY (parent) REFERENCES "{{schema}}".b {cascade}"""
    table = made(sandbox, schema, columns, more, on_conflict=rule, tombstones="delete")
    table.commit(records({"id": 0}, {"id": 1}))
    if not is_direct:
        table.run(f'INSERT INTO "{schema}".b VALUES (0)')
    table.commit(records({"id": 2, "parent": 0}, {"id": 3, "parent": 0}, start=2))
    entry = table.commit([record(4, None, key=b"0"), record(5, {"id": 5})])
    assert table.rows("id") == [(1,), (5,)]
    assert (entry.written, entry.details["deleted"], entry.details["also_removed"]) == (2, 1, 2)
    entry = table.commit([record(6, None, key=b"1")])
    assert (entry.details["deleted"], "also_removed" in entry.details) == (1, False)


def test_a_tombstone_whose_row_the_trigger_of_a_child_table_keeps(
    sandbox: Endpoints, schema: str
) -> None:
    child = """
    CREATE TABLE "{schema}".child () INHERITS ({{table}}); INSERT INTO "{schema}".child VALUES (7, 'a');
    CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
    CREATE TRIGGER t BEFORE DELETE ON "{schema}".child FOR EACH ROW EXECUTE FUNCTION "{schema}".f()
    """
    columns = "id int PRIMARY KEY, v text"
    table = made(sandbox, schema, columns, child, on_conflict="update", tombstones="delete")
    entry = table.commit([record(0, None, key=b"7"), record(1, {"id": 8})])
    assert table.rows("id") == [(7,), (8,)]
    assert (entry.written, entry.filtered, entry.details["not_deleted"]) == (1, 1, 1)


BELOW = """
CREATE TABLE "{schema}".b (id int DEFAULT 5 REFERENCES {table} ({column}) {action});
CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN DELETE FROM "{schema}".cars WHERE id = 9; RETURN NULL; END$$;
CREATE {kind} TRIGGER t AFTER UPDATE OR DELETE ON "{schema}".b {when} FOR EACH ROW EXECUTE FUNCTION "{schema}".f()
"""
AT_ONCE, AT_THE_COMMIT = ("", ""), ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED")


def with_below(
    sandbox: Endpoints, schema: str, column: str, action: str, moment: tuple[str, str]
) -> Table:
    """A table whose row 1 another one refers to; when that other row changes, a trigger deletes row 9 here."""
    kind, when = moment
    named = {"schema": "{schema}", "table": "{{table}}"}
    below = BELOW.format(column=column, action=action, kind=kind, when=when, **named)
    columns = "id int PRIMARY KEY, v int UNIQUE"
    table = made(sandbox, schema, columns, below, on_conflict="update", tombstones="delete")
    table.commit(records({"id": 1, "v": 1}, {"id": 9}, {"id": 5}))
    table.run(f'INSERT INTO "{schema}".b VALUES (1)')
    return table


@pytest.mark.parametrize("moment", [AT_ONCE, AT_THE_COMMIT])
@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_rows_that_the_trigger_of_a_table_below_removes(
    sandbox: Endpoints, schema: str, action: str, moment: tuple[str, str]
) -> None:
    table = with_below(sandbox, schema, "id", f"ON DELETE {action}", moment)
    entry = table.commit([record(3, None, key=b"1")])
    assert table.rows("id") == [(5,)]
    assert (entry.details["deleted"], entry.details["also_removed"]) == (1, 1)


@pytest.mark.parametrize("moment", [AT_ONCE, AT_THE_COMMIT])
@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_rows_that_the_trigger_of_a_table_below_removes_at_an_update(
    sandbox: Endpoints, schema: str, action: str, moment: tuple[str, str]
) -> None:
    table = with_below(sandbox, schema, "v", f"ON UPDATE {action}", moment)
    entry = table.commit([record(3, {"id": 1, "v": 2})])
    assert table.rows("id") == [(1,), (5,)]
    assert (entry.details["updated"], entry.details["also_removed"]) == (1, 1)


REMOVES = """
CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN DELETE FROM "{schema}".cars WHERE id = 9; RETURN NULL; END$$;
"""
TRIGGER = (
    'CREATE TRIGGER t AFTER DELETE ON "{schema}".b FOR EACH ROW EXECUTE FUNCTION "{schema}".f();'
)
RULE = 'CREATE RULE r AS ON {event} TO "{schema}".b DO {kind} DELETE FROM "{schema}".cars WHERE id = 9;'


# Instead of an update, the server refuses a deletion.
@pytest.mark.parametrize(
    ("event", "kind"), [("DELETE", "ALSO"), ("DELETE", "INSTEAD"), ("UPDATE", "ALSO")]
)
def test_rows_that_the_rule_of_a_table_below_removes(
    sandbox: Endpoints, schema: str, event: str, kind: str
) -> None:
    """A foreign key's action is a statement, to which the rules of the other table apply."""
    column = "id" if event == "DELETE" else "v"
    more = f'CREATE TABLE "{{schema}}".b (v int REFERENCES {{{{table}}}} ({column}) ON {event} CASCADE);'
    more += RULE.format(schema="{schema}", event=event, kind=kind)
    table = made(
        sandbox,
        schema,
        "id int PRIMARY KEY, v int UNIQUE",
        more,
        on_conflict="update",
        tombstones="delete",
    )
    table.commit(records({"id": 1, "v": 1}, {"id": 9}, {"id": 5}))
    table.run(f'INSERT INTO "{schema}".b VALUES (1)')
    changes = record(3, None, key=b"1") if event == "DELETE" else record(3, {"id": 1, "v": 2})
    entry = table.commit([changes])
    assert table.rows("id") == ([(5,)] if event == "DELETE" else [(1,), (5,)])
    assert (entry.written, entry.details["also_removed"]) == (1, 1)


def test_rows_that_a_trigger_removes_where_a_row_below_moves_to(
    sandbox: Endpoints, schema: str
) -> None:
    """A row that a foreign key moves to another partition is inserted there."""
    more = f"""
    CREATE TABLE "{{schema}}".b (v int REFERENCES {{{{table}}}} (v) ON UPDATE CASCADE) PARTITION BY LIST (v);
    CREATE TABLE "{{schema}}".b1 PARTITION OF "{{schema}}".b FOR VALUES IN (1);
    CREATE TABLE "{{schema}}".b2 PARTITION OF "{{schema}}".b DEFAULT; {REMOVES}
    CREATE TRIGGER t AFTER INSERT ON "{{schema}}".b2 FOR EACH ROW EXECUTE FUNCTION "{{schema}}".f()
    """
    table = made(sandbox, schema, "id int PRIMARY KEY, v int UNIQUE", more, on_conflict="update")
    table.commit(records({"id": 1, "v": 1}, {"id": 9}, {"id": 5}))
    table.run(f'INSERT INTO "{schema}".b VALUES (1)')
    entry = table.commit([record(3, {"id": 1, "v": 2})])
    assert table.rows("id") == [(1,), (5,)]
    assert (entry.details["updated"], entry.details["also_removed"]) == (1, 1)


PARTITION = 'CREATE TABLE "{schema}".p PARTITION OF {{table}} DEFAULT;'
HEIR = 'CREATE TABLE "{schema}".p (PRIMARY KEY (id)) INHERITS ({{table}});'
ITS_KEY = (
    'ALTER TABLE "{schema}".p ADD FOREIGN KEY (v) REFERENCES "{schema}".p (id) ON DELETE CASCADE;'
)
BELOW_IT = f"""
CREATE TABLE "{{schema}}".b (v int REFERENCES "{{schema}}".p (id) ON DELETE CASCADE);
{REMOVES}{TRIGGER}
"""
OF_ALL = 'CREATE TRIGGER t AFTER DELETE ON {{table}} FOR EACH ROW EXECUTE FUNCTION "{schema}".f();'


@pytest.mark.parametrize(
    ("part", "rows"),
    [
        (PARTITION + ITS_KEY, "INSERT INTO {s}.cars VALUES (1, 1), (9, 1)"),
        (
            PARTITION + BELOW_IT,
            "INSERT INTO {s}.cars VALUES (1), (9); INSERT INTO {s}.b VALUES (1)",
        ),
        (
            HEIR + BELOW_IT,
            "INSERT INTO {s}.cars VALUES (9); INSERT INTO {s}.p VALUES (1); INSERT INTO {s}.b VALUES (1)",
        ),
        (
            HEIR + REMOVES + OF_ALL,
            "INSERT INTO {s}.cars VALUES (1); INSERT INTO {s}.p VALUES (9)",
        ),
    ],
    ids=["itself", "below a partition", "below an heir", "from an heir"],
)
def test_rows_that_go_with_those_of_a_part_of_the_table(
    sandbox: Endpoints, schema: str, part: str, rows: str
) -> None:
    """Foreign keys and triggers of partitions, and of tables that inherit from the table, are their own."""
    by = ") PARTITION BY LIST (id" if part.startswith(PARTITION) else ""
    columns = f"id int PRIMARY KEY, v int{by}"
    table = made(sandbox, schema, columns, part, on_conflict="update", tombstones="delete")
    table.run(rows.format(s=f'"{schema}"'))
    entry = table.commit([record(0, None, key=b"1")])
    assert table.rows("id") == []
    assert (entry.details["deleted"], entry.details["also_removed"]) == (1, 1)


def test_a_trigger_that_only_counts(sandbox: Endpoints, schema: str) -> None:
    counts = """
    CREATE TABLE "{schema}".counts (n int); INSERT INTO "{schema}".counts VALUES (0);
    CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN UPDATE "{schema}".counts SET n = n + 1; RETURN NULL; END$$;
    CREATE TRIGGER t AFTER INSERT ON {{table}} FOR EACH STATEMENT EXECUTE FUNCTION "{schema}".f()
    """
    table = made(sandbox, schema, "id int, v text", counts)
    entry = table.commit(records(*VALUES))
    assert (entry.written, entry.filtered, "not_kept" in entry.details) == (9, 0, False)


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


def test_policies_that_come_while_a_replay_runs(sandbox: Endpoints, schema: str) -> None:
    """Without a policy for DELETE, a tombstone deletes nothing, and the server says nothing."""
    columns = "id int PRIMARY KEY, v text"
    options: Any = {"on_conflict": "update", "tombstones": "delete"}
    owned = Table.made(sandbox.database_url, schema, columns, **options)
    rows, gone = records({"id": 1, "v": "x"}), record(1, None, key=b"1")
    slice_ = Slice("cars", 0, 1, 2)
    with as_role(owned) as table:
        with table.target.open(REPLAY) as writer:
            writer.commit(account_of(Slice("cars", 0, 0, 1), rows), [Records.of(rows)])
            owned.run(
                "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;"
                "CREATE POLICY s ON {table} FOR SELECT USING (true);"
                "CREATE POLICY i ON {table} FOR INSERT WITH CHECK (true);"
                "CREATE POLICY u ON {table} FOR UPDATE USING (true)"
            )
            with pytest.raises(TableChanged, match="row security"):
                writer.commit(account_of(slice_, [gone]), [Records.of([gone])])
        entry = table.commit([gone])
    assert owned.rows("id") == [(1,)]
    assert (entry.written, entry.filtered, entry.details["not_kept"]) == (0, 1, 1)


@pytest.mark.parametrize("rule", [None, "update"])
def test_a_partition_with_a_trigger_that_is_attached_while_a_slice_is_written(
    sandbox: Endpoints, schema: str, monkeypatch: pytest.MonkeyPatch, rule: Any
) -> None:
    """PostgreSQL attaches a partition although the writer has the lock of its table."""
    columns = "id int PRIMARY KEY, v text) PARTITION BY RANGE (id"
    more = """CREATE TABLE "{schema}".low PARTITION OF {{table}} FOR VALUES FROM (0) TO (5);
        CREATE TABLE "{schema}".high (id int PRIMARY KEY, v text);"""
    table = made(sandbox, schema, columns, more, on_conflict=rule)
    high = sql.Identifier(schema, "high").as_string()
    table.run(DROPS.format(schema=schema).replace("{table}", high))
    steps: list[str] = []

    def attach(step: str) -> None:
        if step == "postgres.begun" and not steps:
            table.run(f"ALTER TABLE {{table}} ATTACH PARTITION {high} FOR VALUES FROM (5) TO (99)")
        steps.append(step)

    monkeypatch.setattr("playhead.postgres.writer.abort_point", attach)
    with pytest.raises(TableChanged, match="may drop rows"):
        table.commit(records(*VALUES))
    assert table.rows() == []
    entry = table.commit(records(*VALUES))
    assert len(table.rows()) == 8
    assert (entry.written, entry.filtered, entry.details["not_kept"]) == (8, 1, 1)


def test_the_proof_says_so(sandbox: Endpoints, schema: str, tmp_path: Path) -> None:
    table = made(sandbox, schema, "id int PRIMARY KEY, v text", DROPS)
    source = ListSource([record(n, value) for n, value in enumerate(VALUES)])
    plan = whole_plan(source, replay_id="anew", target=inspected(table, source))
    proof = runner(plan, source, table.target, tmp_path, run_job=last_first).run()
    assert proof.adds_up
    assert (proof.total("written"), proof.total("filtered")) == (6, 3)
    [told] = [note.text for note in proof.notes if note.code == "not-kept"]
    assert told.startswith("3 filtered records were written but not kept by the target")


LATE = """
CREATE FUNCTION "{schema}".late() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN IF NEW.id = 6 THEN {does} "{schema}".cars; END IF; RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON {on} DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION "{schema}".late()
"""
ELSEWHERE = """
CREATE TABLE "{schema}".seen (id int);
CREATE FUNCTION "{schema}".sees() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN INSERT INTO "{schema}".seen VALUES (NEW.id); RETURN NULL; END$$;
CREATE TRIGGER sees AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION "{schema}".sees();
"""
HALVES = """
CREATE TABLE "{schema}".low PARTITION OF {table} FOR VALUES FROM (0) TO (5);
CREATE TABLE "{schema}".high PARTITION OF {table} FOR VALUES FROM (5) TO (99);
"""
LATE_ONES = {
    "of a partition": ("id int, v text) PARTITION BY RANGE (id", HALVES, '"{schema}".high'),
    "of another table": ("id int, v text", ELSEWHERE, '"{schema}".seen'),
}


@pytest.mark.parametrize("late", LATE_ONES.values(), ids=LATE_ONES)
def test_rows_that_a_trigger_deletes_at_the_commit(
    sandbox: Endpoints, schema: str, late: tuple[str, str, str]
) -> None:
    columns, before, on = late
    table = Table.made(sandbox.database_url, schema, columns)
    quoted = {"schema": schema, "table": f'"{schema}".cars'}
    on = on.format(**quoted)
    table.run(before.format(**quoted) + LATE.format(does="DELETE FROM", on=on, **quoted))
    entry = table.commit(records(*VALUES))
    assert table.rows() == []
    assert (entry.written, entry.filtered) == (0, 9)


def test_a_trigger_that_empties_the_table_at_the_commit(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, "id int, v text")
    quoted = {"schema": schema, "table": f'"{schema}".cars'}
    table.run(ELSEWHERE.format(**quoted))
    table.run(LATE.format(does="TRUNCATE", on=f'"{schema}".seen', **quoted))
    with pytest.raises(TableChanged, match="a trigger truncated"):
        table.commit(records(*VALUES))
    assert table.rows() == []
