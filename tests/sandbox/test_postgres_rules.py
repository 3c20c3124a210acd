"""What happens when records meet rows that are there: the rules, tombstones, and a model of both."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playhead.account import Account, DeadLetter, RecordRefused
from playhead.ledger import Entry
from playhead.postgres.stage.stage import ConflictFound
from playhead.record import Record
from playhead.records import Records
from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import NOON_MS, Table, record, records

COLUMNS = "id int PRIMARY KEY, v text, _offset int8, _timestamp timestamptz"


@pytest.fixture
def table(sandbox: Endpoints, schema: str) -> Table:
    return Table.made(sandbox.database_url, schema, COLUMNS)


def valued(*pairs: tuple[int, str], start: int = 0, **same: Any) -> list[Record]:
    return records(*({"id": id_, "v": v} for id_, v in pairs), start=start, **same)


def held(table: Table) -> dict[int, str]:
    return dict(table.rows("id, v"))


class TestWithoutARule:
    def test_rows_are_appended_directly(self, table: Table) -> None:
        entry = table.commit(valued((1, "a"), (2, "b")))
        assert entry.details == {"way": "direct", "inserted": 2}
        assert held(table) == {1: "a", 2: "b"}

    def test_a_row_that_is_there_ends_the_replay_and_names_the_record(self, table: Table) -> None:
        table.commit(valued((2, "there")))
        with pytest.raises(ConflictFound) as caught:
            table.commit(valued((1, "a"), (2, "b"), (3, "c"), start=10), rule="skip")
        assert "cars:0 offset 11 has the key of an existing row" in str(caught.value)
        assert "--on-conflict ignore leaves the row, newer or update change it" in (
            caught.value.hint or ""
        )
        assert held(table) == {2: "there"}
        assert len(table.target.entries("7f3a")) == 1

    def test_two_of_one_key_in_a_slice_end_it_too(self, table: Table) -> None:
        with pytest.raises(ConflictFound, match="offset 1 has the key of an existing row"):
            table.commit(valued((1, "a"), (1, "b")))


class TestIgnore:
    def test_what_is_there_stays_and_of_one_slice_the_first_comes(self, table: Table) -> None:
        table = table.with_options(on_conflict="ignore")
        table.commit(valued((1, "there")))
        entry = table.commit(valued((1, "a"), (2, "first"), (2, "second"), (3, "c"), start=10))
        assert held(table) == {1: "there", 2: "first", 3: "c"}
        assert entry.details["way"] == "staged"
        assert (entry.details["inserted"], entry.details["left_alone"]) == (2, 2)

    def test_the_direct_way_is_tried_again_when_nothing_collided_for_a_while(
        self, table: Table
    ) -> None:
        table = table.with_options(on_conflict="ignore")
        table.commit(valued((1, "there")))
        slices = [valued((1, "again"), start=10)]
        slices += [valued((n, "new"), start=n) for n in range(20, 31)]
        ways = []
        with table.target.open("7f3a") as writer:
            for rows in slices:
                account = _account(rows)
                writer.commit(account, [Records.of(rows)])
        for entry in table.target.entries("7f3a")[1:]:
            ways.append(entry.details["way"])
        assert ways == ["staged"] * 8 + ["apart"] + ["direct"] * 3


class TestUpdate:
    def test_only_rows_that_differ_are_touched(self, table: Table) -> None:
        table = table.with_options(on_conflict="update")
        table.commit(valued((1, "same"), (2, "old"), ms=NOON_MS))
        before = dict(table.rows("id, xmin::text"))
        rows = [
            record(0, {"id": 1, "v": "same"}, ms=NOON_MS),
            record(1, {"id": 2, "v": "new"}, ms=NOON_MS),
            record(2, {"id": 3, "v": "x"}, ms=NOON_MS),
        ]
        entry = table.commit(rows, replay="again")
        after = dict(table.rows("id, xmin::text"))
        assert held(table) == {1: "same", 2: "new", 3: "x"}
        assert entry.details == {"way": "staged", "inserted": 1, "updated": 1, "left_alone": 1}
        assert after[1] == before[1], "a row that is the same was written again"
        assert after[2] != before[2]

    def test_a_column_that_no_record_has_is_left_as_it_is(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        columns = "id int PRIMARY KEY, v text, remark text DEFAULT 'none'"
        table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
        table.run("INSERT INTO {table} VALUES (1, 'old', 'by hand')")
        table.commit(valued((1, "new"), (2, "more")))
        assert table.rows() == [(1, "new", "by hand"), (2, "more", "none")]

    def test_columns_that_cannot_be_compared(self, sandbox: Endpoints, schema: str) -> None:
        columns = "id int PRIMARY KEY, js json, pt point, x xml"
        try:
            table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
        except Exception:  # a server built without XML
            columns = "id int PRIMARY KEY, js json, pt point"
            table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
        table.commit([record(0, {"id": 1, "js": {"a": 1}, "pt": "(1,2)"})])
        entry = table.commit([record(5, {"id": 1, "js": {"a": 1}, "pt": "(1,2)"})])
        assert entry.details["left_alone"] == 1
        entry = table.commit([record(6, {"id": 1, "js": {"a": 2}, "pt": "(1,3)"})])
        assert entry.details["updated"] == 1
        assert table.rows("js::text, pt::text") == [('{"a":2}', "(1,3)")]


class TestNewer:
    def test_a_record_never_overwrites_a_later_one(self, table: Table) -> None:
        table = table.with_options(on_conflict="newer")
        table.commit(valued((1, "noon"), (2, "noon"), (3, "noon"), ms=NOON_MS))
        rows = [
            record(10, {"id": 1, "v": "before"}, ms=NOON_MS - 1),
            record(11, {"id": 2, "v": "after"}, ms=NOON_MS + 1),
            record(12, {"id": 3, "v": "latest"}, ms=NOON_MS + 9),
            record(13, {"id": 3, "v": "later"}, ms=NOON_MS + 5),
        ]
        entry = table.commit(rows)
        assert held(table) == {1: "noon", 2: "after", 3: "latest"}
        assert (entry.details["updated"], entry.details["left_alone"]) == (2, 2)

    def test_by_a_column_of_the_value(self, sandbox: Endpoints, schema: str) -> None:
        columns = "id int PRIMARY KEY, v text, version int"
        table = Table.made(
            sandbox.database_url, schema, columns, on_conflict="newer", version_column="version"
        )
        for start, version in ((0, 5), (10, 3), (20, 7)):
            table.commit([record(start, {"id": 1, "v": str(version), "version": version})])
        assert table.rows("v") == [("7",)]


class TestError:
    def test_each_record_that_meets_a_row_is_refused(self, table: Table) -> None:
        table = table.with_options(on_conflict="error")
        table.commit(valued((1, "there")))
        rows = valued((1, "a"), (2, "b"), (2, "c"), (3, "d"), start=10)
        with pytest.raises(RecordRefused, match="offset 10"):
            table.commit(rows)
        dead: list[DeadLetter] = []
        entry = table.commit(
            rows, rule="dlq:d", write_dead_letters=lambda _, letters: dead.extend(letters)
        )
        assert held(table) == {1: "there", 2: "b", 3: "d"}
        assert [(each.record.offset, each.kind) for each in dead] == [
            (10, "conflict"),
            (12, "conflict"),
        ]
        assert (entry.written, entry.dead) == (2, 2)
        assert entry.details["refused"] == [10, 12]


class TestCounts:
    """Of 40 rows there are 4 already: two as they come, one older, one later."""

    COMING = tuple((n, "new", NOON_MS + 10) for n in range(40))
    THERE = (
        (3, "new", NOON_MS + 10),
        (4, "new", NOON_MS + 10),
        (5, "a", NOON_MS),
        (6, "b", NOON_MS + 99),
    )
    FOUND = (
        ("ignore", {"inserted": 36, "updated": 0, "left_alone": 4}, {5: "a", 6: "b"}),
        ("update", {"inserted": 36, "updated": 2, "left_alone": 2}, {5: "new", 6: "new"}),
        ("newer", {"inserted": 36, "updated": 1, "left_alone": 3}, {5: "new", 6: "b"}),
    )

    def rows(self, start: int = 100) -> list[Record]:
        return [
            record(start + n, {"id": id_, "v": v}, ms=ms)
            for n, (id_, v, ms) in enumerate(self.COMING)
        ]

    def made(self, sandbox: Endpoints, schema: str, columns: str, rule: str, **more: Any) -> Table:
        table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule, **more)
        for id_, v, ms in self.THERE:
            table.run(
                "INSERT INTO {table} (id, v, _timestamp) VALUES (%s, %s, to_timestamp(%s / 1000.0))",
                id_,
                v,
                ms,
            )
        return table

    @pytest.mark.parametrize(("rule", "counts", "held_then"), FOUND)
    @pytest.mark.parametrize("way", ["apart", "staged"])
    def test_of_each_rule(
        self,
        sandbox: Endpoints,
        schema: str,
        rule: str,
        counts: dict[str, int],
        held_then: dict[int, str],
        way: str,
    ) -> None:
        # What only the server knows to be equal is not parted beforehand.
        kind = "int" if way == "apart" else "numeric"
        columns = f"id {kind} PRIMARY KEY, v text, _timestamp timestamptz"
        table = self.made(sandbox, schema, columns, rule)
        entry = table.commit(self.rows())
        assert entry.details == {"way": way} | counts
        assert held(table) == dict.fromkeys(range(40), "new") | held_then

    def test_of_records_that_a_later_tombstone_takes_back(self, table: Table) -> None:
        table = table.with_options(on_conflict="update", tombstones="delete")
        table.commit(valued((1, "there"), (2, "there")))
        rows = [
            *valued((1, "again"), (3, "short-lived"), (4, "stays"), start=10),
            record(13, None, key=b"1"),
            record(14, None, key=b"3"),
            record(15, None, key=b"9"),
        ]
        entry = table.commit(rows)
        counts = {"inserted": 1, "updated": 0, "left_alone": 0, "deleted": 1}
        assert entry.details == {"way": "staged", "tombstones": 3, "superseded": 2} | counts
        assert held(table) == {2: "there", 4: "stays"}

    def test_tombstones_need_no_rule(self, table: Table) -> None:
        table = table.with_options(tombstones="delete")
        table.commit([*valued((1, "a"), (2, "b")), record(2, None, key=b"1")])
        assert held(table) == {2: "b"}


class TestComparing:
    """Rows are known again by their key, else by their place, else by all that they hold."""

    @pytest.mark.parametrize("rule", [None, "ignore", "update", "newer", "error"])
    @pytest.mark.parametrize("place", ["", ", _topic text, _partition int, _offset int8"])
    def test_what_is_damaged_is_found(
        self, sandbox: Endpoints, schema: str, rule: Any, place: str
    ) -> None:
        columns = f"id int PRIMARY KEY, v text, _timestamp timestamptz{place}"
        table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule)
        rows = valued(*((n, "x") for n in range(10)))
        entry = table.commit(rows)
        assert self.kinds(table, entry, rows) == []
        table.run("DELETE FROM {table} WHERE id = 3")
        assert self.kinds(table, entry, rows) == [("missing", 3)]
        table.run("UPDATE {table} SET v = 'y' WHERE id = 5")
        assert self.kinds(table, entry, rows) == [("missing", 3), ("changed", 5)]

    def test_without_key_and_place_rows_are_counted_by_what_they_hold(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, "id int, v text")
        rows = valued((1, "a"), (1, "a"), (2, "b"))
        entry = table.commit(rows)
        assert self.kinds(table, entry, rows) == []
        table.run("UPDATE {table} SET v = 'c' WHERE id = 2")
        assert self.kinds(table, entry, rows) == [("missing", 2)]
        table.run("DELETE FROM {table} WHERE ctid = (SELECT min(ctid) FROM {table})")
        assert self.kinds(table, entry, rows) == [("missing", 1), ("missing", 2)]

    def kinds(self, table: Table, entry: Entry, rows: list[Record]) -> list[tuple[str, int | None]]:
        [findings] = table.compared((entry, rows))
        same = findings.expected_checksum == findings.found_checksum
        assert same == (not findings.different)
        assert findings.different == len(findings.differences)
        assert findings.same + findings.different == len(rows)
        return [(each.kind, each.offset) for each in findings.differences]


class TestKeys:
    def test_a_record_without_the_key_cannot_be_known_again(self, table: Table) -> None:
        table = table.with_options(on_conflict="ignore")
        entry = table.commit(
            [record(0, {"v": "a"}), record(1, {"id": None}), record(2, {"id": 1})], rule="skip"
        )
        assert (entry.written, entry.skipped) == (1, 2)

    def test_keys_that_only_the_server_knows_to_be_equal(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        columns = "code char(4), at timestamptz(0), v text, PRIMARY KEY (code, at)"
        table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
        rows = [
            record(0, {"code": "a", "at": "2021-08-04T12:30:00.1Z", "v": "first"}),
            record(1, {"code": "a ", "at": "2021-08-04T12:30:00.2Z", "v": "second"}),
        ]
        entry = table.commit(rows)
        assert table.rows("v") == [("second",)]
        assert entry.written == 2

    @pytest.mark.parametrize("way", ["apart", "staged"])
    def test_keys_of_a_collation_of_their_own(
        self, sandbox: Endpoints, schema: str, way: str
    ) -> None:
        columns = 'id text COLLATE "POSIX" PRIMARY KEY, v text'
        options = {"tombstones": "delete", "on_conflict": "update"}
        table = Table.made(sandbox.database_url, schema, columns, **options)
        table.run("INSERT INTO {table} VALUES ('a', 'old'), ('b', 'old')")
        rows = [record(n, {"id": id_, "v": "new"}) for n, id_ in enumerate("acde")]
        if way == "staged":
            rows += [record(4, {"id": "c", "v": "newer"}), record(5, None, key=b"b")]
        entry = table.commit(rows)
        assert entry.details["way"] == way
        wanted = dict.fromkeys("acde", "new") | (
            {"c": "newer"} if way == "staged" else {"b": "old"}
        )
        assert held(table) == wanted
        assert table.differences(entry, rows) == []

    def test_a_key_of_several_columns_in_any_order(self, sandbox: Endpoints, schema: str) -> None:
        columns = "a int, b text, v text, UNIQUE (b, a)"
        table = Table.made(
            sandbox.database_url, schema, columns, on_conflict="update", key=("a", "b")
        )
        table.commit([record(0, {"a": 1, "b": "x", "v": "old"})])
        table.commit([record(1, {"a": 1, "b": "x", "v": "new"})])
        assert table.rows("v") == [("new",)]


class TestTombstones:
    def test_unsaid_they_are_refused(self, table: Table) -> None:
        with pytest.raises(RecordRefused, match="--tombstones delete, skip or null"):
            table.commit([record(0, {"id": 1}), record(1, None, key=b"1")])
        entry = table.commit([record(0, {"id": 1}), record(1, None, key=b"1")], rule="skip")
        assert (entry.written, entry.skipped) == (1, 1)

    def test_skipped_they_count_as_written(self, table: Table) -> None:
        table = table.with_options(tombstones="skip")
        entry = table.commit([record(0, {"id": 1}), record(1, None, key=b"1")])
        assert (entry.written, entry.skipped) == (2, 0)
        assert entry.details["tombstones_skipped"] == 1
        assert held(table) == {1: None}

    @pytest.mark.parametrize("key", [b"2", b'{"id":2}', b'{"ID":2.0,"more":1}', b'"2"'])
    def test_they_delete_by_key(self, table: Table, key: bytes) -> None:
        table = table.with_options(tombstones="delete", on_conflict="update")
        table.commit(valued((1, "a"), (2, "b")))
        entry = table.commit([record(10, None, key=key)])
        assert held(table) == {1: "a"}
        assert (entry.written, entry.details["deleted"]) == (1, 1)

    def test_a_key_that_cannot_be_one_is_refused(self, table: Table) -> None:
        table = table.with_options(tombstones="delete", on_conflict="update")
        rows = [
            record(n, None, key=key) for n, key in enumerate([b"x", None, b"\xff", b"{}", b"7"])
        ]
        dead: list[DeadLetter] = []
        entry = table.commit(
            rows, rule="dlq:d", write_dead_letters=lambda _, letters: dead.extend(letters)
        )
        kinds = [(each.record.offset, each.kind) for each in dead]
        assert kinds == [(0, "type"), (1, "no_key"), (2, "utf8"), (3, "no_key")]
        assert (entry.written, entry.dead) == (1, 4)

    @pytest.mark.parametrize("kind", ["text", "bytea", "jsonb"])
    def test_they_delete_by_the_very_key(self, sandbox: Endpoints, schema: str, kind: str) -> None:
        """A key that is JSON names no columns where the whole key is one, and `"2"` is not `2`."""
        columns = f"_topic text, _key {kind}, v text, UNIQUE (_topic, _key)"
        options = {"key": ("_key", "_topic"), "on_conflict": "update", "tombstones": "delete"}
        table = Table.made(sandbox.database_url, schema, columns, **options)
        keys = [b'"2"', b"2", b'{"_key": "2"}', b"null", b"[]"]
        table.commit([record(n, {"v": str(n)}, key=key) for n, key in enumerate(keys)])
        for left, key in enumerate(keys):
            entry = table.commit([record(10 + left, None, key=key)])
            assert entry.details["deleted"] == 1
            assert table.rows("v", order="v") == [(str(n),) for n in range(left + 1, len(keys))]

    def test_as_rows_they_are_nulls(self, sandbox: Endpoints, schema: str) -> None:
        columns = "_key text, _offset int8, v text"
        table = Table.made(sandbox.database_url, schema, columns, tombstones="null")
        table.commit([record(0, {"v": "a"}, key=b"k"), record(1, None, key=b"k")])
        assert table.rows(order="_offset") == [("k", 0, "a"), ("k", 1, None)]


# --- the model --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Put:
    id: int
    v: str
    ms: int


@dataclass(frozen=True)
class Gone:
    id: int
    ms: int


ids, moments = st.integers(1, 3), st.integers(0, 4).map(lambda n: NOON_MS + n)
steps = st.one_of(
    st.builds(Put, ids, st.sampled_from("abc"), moments),
    st.builds(Put, ids, st.sampled_from("abc"), moments),
    st.builds(Gone, ids, moments),
)
Row = tuple[str, int, int]


def after(records: list[tuple[int, Put | Gone]], rule: str) -> dict[int, Row]:
    """The law, record by record; under `newer` the latest of all decides, whatever the order."""
    rows: dict[int, Row] = {}
    if rule == "newer":
        for offset, step in sorted(records, key=lambda each: (each[1].ms, each[0])):
            rows.pop(step.id, None)
            if isinstance(step, Put):
                rows[step.id] = (step.v, step.ms, offset)
        return rows
    for offset, step in records:
        if isinstance(step, Gone):
            rows.pop(step.id, None)
        elif rule == "update" or step.id not in rows:
            rows[step.id] = (step.v, step.ms, offset)
    return rows


def _record(offset: int, step: Put | Gone) -> Record:
    value = {"id": step.id, "v": step.v} if isinstance(step, Put) else None
    return record(offset, value, key=str(step.id).encode(), ms=step.ms)


def _account(rows: list[Record]) -> Account:
    from playhead.record import Slice
    from tests.sandbox.postgres_table import account_of

    return account_of(Slice("cars", 0, rows[0].offset, rows[-1].offset + 1), rows)


@pytest.mark.parametrize("rule", ["ignore", "update", "newer"])
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(steps, min_size=1, max_size=6), min_size=1, max_size=4))
def test_the_table_is_as_the_model_says_and_comparing_finds_nothing(
    table: Table, rule: str, slices: list[list[Put | Gone]]
) -> None:
    columns = "id int PRIMARY KEY, v text, _topic text, _partition int, _offset int8, _timestamp timestamptz"
    table.run(f"DROP TABLE IF EXISTS {{table}}; CREATE TABLE {{table}} ({columns})")
    table.run(f'TRUNCATE "{table.schema}".ledger')
    table = table.with_options(on_conflict=rule, tombstones="delete")
    offset, committed, log = 0, list[list[Record]](), list[tuple[int, Put | Gone]]()
    with table.target.open("7f3a") as writer:
        for steps_ in slices:
            numbered = [(offset + n, step) for n, step in enumerate(steps_)]
            rows = [_record(*each) for each in numbered]
            offset += len(steps_)
            writer.commit(_account(rows), [Records.of(rows)])
            committed.append(rows)
            log += numbered
            there = {
                row[0]: row[1:]
                for row in table.rows(
                    "id, v, (extract(epoch FROM _timestamp) * 1000)::int8, _offset"
                )
            }
            assert there == after(log, rule)
        entries = table.target.entries("7f3a")
    # However it was cut: what the log says is what a comparison asks for.
    found = table.compared(*zip(entries, committed, strict=True))
    assert not any(each.different or each.unknown for each in found), found
    assert all(each.expected_checksum == each.found_checksum for each in found), found
