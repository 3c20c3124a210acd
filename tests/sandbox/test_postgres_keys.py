"""Keys that the column's type changes, and tables whose rows lie in partitions."""

from typing import Any

import pytest

from playhead.record import Slice
from playhead.records import Records
from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import NOON_MS, REPLAY, Table, account_of, record, records


class TestPartitions:
    @pytest.fixture
    def table(self, sandbox: Endpoints, schema: str) -> Table:
        table = Table.made(sandbox.database_url, schema, "id int", "other")
        table.run(
            f"""CREATE TABLE "{schema}".cars (id int PRIMARY KEY, v text, _topic text,
                    _partition int, _offset int8, _timestamp timestamptz) PARTITION BY RANGE (id);
                CREATE TABLE "{schema}".low PARTITION OF "{schema}".cars FOR VALUES FROM (0) TO (5);
                CREATE TABLE "{schema}".high PARTITION OF "{schema}".cars FOR VALUES FROM (5) TO (99);
                INSERT INTO "{schema}".cars (id, v) VALUES (1, 'old'), (6, 'old')"""
        )
        return Table(table.url, schema, "cars", table.target).with_options(table=f"{schema}.cars")

    @pytest.mark.parametrize("rule", ["ignore", "update", "newer"])
    def test_first_by_the_stage(self, table: Table, rule: Any) -> None:
        table = table.with_options(on_conflict=rule)
        rows = [record(n, {"id": n % 8, "v": str(n)}, ms=NOON_MS) for n in range(12)]
        entry = table.commit(rows)
        met = 0 if rule == "ignore" else 2
        counts = {"inserted": 6, "updated": met, "left_alone": 6 - met}
        assert entry.details == {"way": "staged"} | counts
        last = {0: "8", 1: "9", 2: "10", 3: "11"} | {n: str(n) for n in range(4, 8)}
        first = {n: str(n) for n in range(8)} | {1: "old", 6: "old"}
        assert dict(table.rows("id, v")) == (first if rule == "ignore" else last)
        assert table.differences(entry, rows) == []

    @pytest.mark.parametrize("rule", ["ignore", "update", "newer"])
    def test_the_other_ways(self, table: Table, rule: Any) -> None:
        table = table.with_options(on_conflict=rule)
        direct = [record(n, {"id": 10 + n, "v": "new"}) for n in range(10)]
        assert table.commit(direct).details["way"] == "direct"
        apart = [record(20 + n, {"id": 5 + n, "v": "newer"}) for n in range(24)]
        entry = table.commit(apart)
        met = 0 if rule == "ignore" else 11
        assert entry.details == {
            "way": "apart",
            "inserted": 13,
            "updated": met,
            "left_alone": 11 - met,
        }
        assert table.differences(entry, apart) == []

    def test_loose_rows_and_tombstones(self, table: Table) -> None:
        table = table.with_options(on_conflict="update", tombstones="delete")
        rows = [record(0, {"ID": 2.0, "v": "new"}), record(1, None, key=b"6")]
        rows += [record(2, {"id": 1, "v": "new"}), record(3, {"id": 99, "v": "nowhere"})]
        entry = table.commit(rows, rule="skip")
        counts = {"inserted": 1, "updated": 1, "left_alone": 0, "deleted": 1, "superseded": 0}
        assert entry.details == {"way": "staged", "tombstones": 1, "refused": [3]} | counts
        assert table.rows("id, v") == [(1, "new"), (2, "new")]
        assert table.differences(entry, rows) == []


# Type, as the key is in the table, as a record has it, as a tombstone has it.
SAME = [
    ("char(4)", "a", "a", "a   "),
    ("char(4)", "a", "a   ", "a"),
    ("varchar(3)", "ab ", "ab      ", "ab    "),
    ("timestamptz(0)", "2021-08-04T12:30:00Z", "2021-08-04T12:30:00.2Z", "2021-08-04T12:30:00.1Z"),
    ("timestamp(0)", "2021-08-04T12:30:00Z", "2021-08-04T14:30:00.2+02:00", "2021-08-04T12:30:00Z"),
    ("numeric(6,1)", "1.5", 1.51, "1.49"),
    ("bit(3)", "101", "101", "101"),
    ("public.citext", "Bob", "BOB", "bob"),
    ("small", 7, 7, "7"),
]


def made(sandbox: Endpoints, schema: str, kind: str, **options: Any) -> Table:
    helper = Table.made(sandbox.database_url, schema, "id int", "helper")
    helper.run(
        f"""CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
            CREATE DOMAIN "{schema}".small AS int CHECK (VALUE < 10)"""
    )
    kind = f'"{schema}".small' if kind == "small" else kind
    columns = f"code {kind} PRIMARY KEY, v text, _topic text, _partition int, _offset int8, "
    columns += "_timestamp timestamptz"
    return Table.made(sandbox.database_url, schema, columns, **options)


@pytest.mark.torture(one_of=3)
@pytest.mark.parametrize("rule", [None, "ignore", "update", "newer"])
@pytest.mark.parametrize(("kind", "held", "given", "gone"), SAME, ids=lambda each: str(each)[:14])
class TestKeysThatTheirTypeChanges:
    def test_tombstones_delete_what_is_there(
        self,
        sandbox: Endpoints,
        schema: str,
        rule: Any,
        kind: str,
        held: Any,
        given: Any,
        gone: str,
    ) -> None:
        table = made(sandbox, schema, kind, on_conflict=rule, tombstones="delete")
        put = [record(0, {"code": given, "v": "x"})]
        table.commit(put)
        rows = [record(1, None, key=gone.encode())]
        entry = table.commit(rows)
        assert table.column("v") == []
        assert entry.details["deleted"] == 1
        table.run("INSERT INTO {table} VALUES (%s, 'back', 'cars', 0, 0)", held)
        assert table.differences(entry, rows) == [("extra", 1)]

    def test_and_take_back_what_is_staged(
        self,
        sandbox: Endpoints,
        schema: str,
        rule: Any,
        kind: str,
        held: Any,
        given: Any,
        gone: str,
    ) -> None:
        table = made(sandbox, schema, kind, on_conflict=rule, tombstones="delete")
        rows = [record(0, {"code": given, "v": "x"}), record(1, None, key=gone.encode())]
        entry = table.commit(rows)
        assert table.column("v") == []
        assert (entry.details["superseded"], entry.details["deleted"]) == (1, 0)
        assert table.differences(entry, rows) == []

    def test_of_one_slice_one_row_is_left(
        self,
        sandbox: Endpoints,
        schema: str,
        rule: Any,
        kind: str,
        held: Any,
        given: Any,
        gone: str,
    ) -> None:
        if rule is None:
            pytest.skip("without a rule two of one key end the replay")
        table = made(sandbox, schema, kind, on_conflict=rule)
        rows = [
            record(n, {"code": each, "v": str(n)}) for n, each in enumerate((held, given, gone))
        ]
        entry = table.commit(rows)
        assert table.column("v") == ["0" if rule == "ignore" else "2"]
        assert table.differences(entry, rows) == []


class TestKeysThatCannotBe:
    @pytest.mark.parametrize(
        ("kind", "bad"), [("char(4)", "abcde"), ("varchar(3)", "abcd"), ("numeric(4,1)", 99999)]
    )
    def test_they_are_refused_and_not_taken_for_another(
        self, sandbox: Endpoints, schema: str, kind: str, bad: Any
    ) -> None:
        """Cut to fit, each would be the key of the tombstone."""
        good = 7 if kind.startswith("numeric") else str(bad)[:-1]
        table = made(sandbox, schema, kind, on_conflict="update", tombstones="delete")
        rows = [
            record(0, {"code": bad, "v": "x"}),
            record(1, {"code": good, "v": "x"}),
            record(2, None, key=str(good).encode()),
            record(3, None, key=str(bad).encode()),
        ]
        entry = table.commit(rows, rule="skip")
        assert entry.details["refused"] == [0, 3]
        assert table.column("v") == []
        assert table.differences(entry, rows) == []


@pytest.mark.parametrize("rule", ["ignore", "update"])
def test_keys_that_meet_once_they_are_rounded(sandbox: Endpoints, schema: str, rule: Any) -> None:
    """Where rows say nothing of their places, a comparison knows by the key alone which one is left."""
    columns = "at timestamptz(0) PRIMARY KEY, v text"
    table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule)
    times = ("2021-08-04T12:30:00.1Z", "2021-08-04T12:30:00.2Z", "2021-08-04T12:31:00Z")
    rows = [record(n, {"at": at, "v": str(n)}) for n, at in enumerate(times)]
    entry = table.commit(rows)
    assert table.column("v", "at") == ["0" if rule == "ignore" else "1", "2"]
    assert table.differences(entry, rows) == []


# The type of the key, one key in two spellings, and a key that is another one.
TWO_SPELLINGS = [
    ("varchar(3)", "abc", "abc ", "zzz"),
    ("code", "abc", "abc ", "zzz"),
    (
        "timestamptz(0)",
        "2021-08-04T12:30:00.1Z",
        "2021-08-04T12:30:00.2Z",
        "2021-08-04T12:31:00Z",
    ),
    ("moment", "2021-08-04T12:30:00.1Z", "2021-08-04T12:30:00.2Z", "2021-08-04T12:31:00Z"),
]


@pytest.mark.parametrize("rule", ["update", "newer"])
@pytest.mark.parametrize(("kind", "one", "other", "far"), TWO_SPELLINGS, ids=lambda e: str(e)[:14])
def test_keys_that_become_one_in_records_that_name_different_columns(
    sandbox: Endpoints, schema: str, kind: str, one: str, other: str, far: str, rule: Any
) -> None:
    """Each set of columns is a statement of its own; these have to follow the order of the records."""
    helper = Table.made(sandbox.database_url, schema, "id int", "helper")
    helper.run(
        f"""CREATE DOMAIN "{schema}".code AS varchar(3);
            CREATE DOMAIN "{schema}".moment AS timestamptz(0)"""
    )
    kind = f'"{schema}".{kind}' if kind in ("code", "moment") else kind
    columns = f"id {kind} PRIMARY KEY, x int, y int, _timestamp timestamptz"
    table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule)
    rows = [
        record(0, {"id": far, "x": 0}),
        record(1, {"id": one, "x": 1, "y": 1}),
        record(2, {"id": other, "x": 5}),
    ]
    entry = table.commit(rows)
    assert table.rows("x, y", "x") == [(0, None), (5, 1)]
    assert table.differences(entry, rows) == []


def test_a_collation_in_which_different_texts_are_equal(sandbox: Endpoints, schema: str) -> None:
    """Rows are distinct for Playhead only if their collation is known to compare bytes."""
    columns = 'id text COLLATE "ucs_basic" PRIMARY KEY, c text COLLATE "C", v text'
    table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
    rows = [record(0, {"id": "a", "c": "b", "v": "0"}), record(1, {"id": "b", "c": "a", "v": "1"})]
    account = account_of(Slice("cars", 0, 0, 2), rows)
    with table.target.open(REPLAY) as writer:
        opened = writer._table_of("cars")
        ready = opened.decode(Records.of(rows), account).ready
        assert opened._are_distinct(("c",), ready)
        assert opened._are_distinct(("v",), ready)
        assert not opened._are_distinct(("id",), ready)


def test_short_keys_of_a_limited_length_are_still_distinct(sandbox: Endpoints, schema: str) -> None:
    """Otherwise slices with such keys, which are common, would all be staged."""
    columns = "id varchar(3) PRIMARY KEY, v text"
    table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
    account = account_of(Slice("cars", 0, 0, 2), [])
    with table.target.open(REPLAY) as writer:
        opened = writer._table_of("cars")
        for last, is_distinct in (("ab", True), ("a\u00e9\u00e9", True), ("abc ", False)):
            rows = [record(0, {"id": "abc", "v": "0"}), record(1, {"id": last, "v": "1"})]
            ready = opened.decode(Records.of(rows), account).ready
            assert opened._are_distinct(("id",), ready) == is_distinct


@pytest.mark.parametrize("name", ["n", "count", "bool"])
@pytest.mark.parametrize("rule", ["update", "newer"])
def test_a_key_with_the_name_of_something_in_a_statement(
    sandbox: Endpoints, schema: str, rule: str, name: str
) -> None:
    """PostgreSQL took it for ambiguous when the rows were compared."""
    columns = f'"{name}" text PRIMARY KEY, v text, _timestamp timestamptz'
    table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule, tombstones="delete")
    rows = records({name: "a", "v": "1"}, {name: "b", "v": "2"}, {name: "a", "v": "3"})
    rows += [record(3, None, key=b"b")]
    entry = table.commit(rows)
    assert table.rows(f'"{name}", v') == [("a", "3")]
    [found] = table.compared((entry, rows))
    assert (found.same, found.different, found.unknown) == (4, 0, 0)


@pytest.mark.parametrize("rule", ["update", "newer", "ignore"])
def test_the_spelling_of_a_key_is_that_of_the_record_that_stays(
    sandbox: Endpoints, schema: str, rule: str
) -> None:
    """However the work is cut; and a spelling that no record wrote is a difference."""
    columns = "_topic text, _partition int, _offset int8, _timestamp timestamptz, id numeric UNIQUE"
    for name, cut in (("whole", 3), ("apart", 1)):
        table = Table.made(sandbox.database_url, schema, columns, name)
        table = table.with_options(on_conflict=rule, key=("id",))
        rows = records({"id": 1}, {"id": 1.0}, {"id": 2})
        parts = [rows[at : at + cut] for at in range(0, 3, cut)]
        entries = [(table.commit(part), part) for part in parts]
        assert table.column("id::text")[0] == ("1" if rule == "ignore" else "1.0")
        assert [f.different for f in table.compared(*entries)].count(0) == len(parts)
        table.run("UPDATE {table} SET id = 1.000 WHERE id = 1")
        assert sum(f.different for f in table.compared(*entries)) > 0
