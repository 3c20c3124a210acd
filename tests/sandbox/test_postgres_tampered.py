"""A comparison of a whole replay: whatever somebody did to the table since, it never says that all is well."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playhead.ledger import Entry, LedgerUnreadable
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.sandbox import Endpoints
from playhead.target import SliceComparison
from tests.sandbox.postgres_table import NOON_MS, REPLAY, Table, account_of, record

PLACED = (
    "id int PRIMARY KEY, v text, _topic text, _partition int, _offset int8, _timestamp timestamptz"
)
PLAIN = "id int PRIMARY KEY, v text, _timestamp timestamptz"


@dataclass
class Played:
    """Slices that were committed in order, to be compared together."""

    table: Table
    slices: list[tuple[Entry, list[Record]]] = field(default_factory=list)

    def play(self, *pairs: tuple[int, str | None], ms: int | None = None, **more: Any) -> Entry:
        start = sum(len(rows) for _, rows in self.slices)
        rows = [
            record(
                start + n,
                None if v is None else {"id": id_, "v": v},
                key=str(id_).encode(),
                ms=ms,
            )
            for n, (id_, v) in enumerate(pairs)
        ]
        entry = self.table.commit(rows, **more)
        self.slices.append((entry, rows))
        return entry

    def found(self) -> list[SliceComparison]:
        return self.table.compared(*self.slices)

    def told(self) -> tuple[int, int, int]:
        """How many are the same, different, and unknown."""
        found = self.found()
        same, different, unknown = (
            sum(getattr(each, name) for each in found) for name in ("same", "different", "unknown")
        )
        agree = all(each.expected_checksum == each.found_checksum for each in found)
        assert agree or different or unknown, found
        return same, different, unknown

    def kinds(self) -> list[tuple[str, int | None]]:
        return [(each.kind, each.offset) for found in self.found() for each in found.differences]


@pytest.fixture(params=[PLACED, PLAIN], ids=["placed", "plain"])
def columns(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(sandbox: Endpoints, schema: str, columns: str, rule: Any, **more: Any) -> Played:
    return Played(Table.made(sandbox.database_url, schema, columns, on_conflict=rule, **more))


STALE = "UPDATE {table} SET v = 'stale' WHERE id = 2"
MISSING = "DELETE FROM {table} WHERE id = 3"


@pytest.mark.parametrize("rule", ["ignore", "update", "newer"])
class TestBesideARowThatWasLegitimatelyLeftAloneOrReplaced:
    @pytest.fixture
    def played(self, sandbox: Endpoints, schema: str, columns: str, rule: Any) -> Played:
        """Key 1 twice, in two slices: one of them left alone, or replaced, as the rule wants it."""
        played = made(sandbox, schema, columns, rule)
        played.play((1, "first"), (2, "a"), (3, "b"))
        entry = played.play((1, "second"), (4, "c"))
        counted = "left_alone" if rule == "ignore" else "updated"
        assert entry.details[counted] == 1
        assert played.told() == (5, 0, 0)
        return played

    def test_a_stale_row_is_reported(self, played: Played) -> None:
        played.table.run(STALE)
        assert played.told() == (4, 1, 0)
        assert played.kinds() == [("changed", 1)]

    def test_a_missing_row_is_reported(self, played: Played) -> None:
        played.table.run(MISSING)
        assert played.told() == (4, 1, 0)
        assert played.kinds() == [("missing", 2)]

    def test_a_row_of_the_key_itself_is_reported(self, played: Played, rule: str) -> None:
        other = {"ignore": "second", "update": "first", "newer": "first"}[rule]
        played.table.run("UPDATE {table} SET v = %s WHERE id = 1", other)
        same, different, unknown = played.told()
        assert (same, different, unknown) == (3, 2, 0)

    def test_a_row_that_was_written_as_of_another_place(self, played: Played, columns: str) -> None:
        if columns != PLACED:
            pytest.skip("its rows do not say which records they are")
        played.table.run("UPDATE {table} SET _offset = 400, v = 'x' WHERE id = 4")
        assert played.told() == (4, 1, 0)

    def test_a_row_too_many(self, played: Played, columns: str) -> None:
        if columns != PLACED:
            pytest.skip("nobody can know whose a row is that no record of the replay accounts for")
        played.table.run("INSERT INTO {table} VALUES (99, 'x', 'cars', 0, 2, now())")
        assert played.told() == (5, 1, 0)
        assert played.kinds() == [("extra", 2)]


class TestRowsThatWereThereBefore:
    """What was there before is not in the log: as often as the ledger says that one was met, it may be so."""

    def test_never_more_than_the_ledger_has_entries_for(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        played = made(sandbox, schema, columns, "ignore")
        played.table.run("INSERT INTO {table} (id, v) VALUES (1, 'before')")
        assert played.play((1, "a"), (2, "b"), (3, "c")).details["left_alone"] == 1
        assert played.told() == (2, 0, 1)
        assert played.kinds() == [("unknown", 0)]
        played.table.run(STALE)
        assert played.told() == (1, 1, 1)
        played.table.run(MISSING)
        assert played.told() == (0, 2, 1)

    def test_the_replays_own_records_are_no_excuse(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        played = made(sandbox, schema, columns, "ignore")
        assert played.play((1, "a"), (1, "b"), (2, "c")).details["left_alone"] == 1
        played.table.run(STALE)
        assert played.told() == (2, 1, 0)

    def test_a_later_row_under_newer(self, sandbox: Endpoints, schema: str, columns: str) -> None:
        played = made(sandbox, schema, columns, "newer")
        played.table.run("INSERT INTO {table} (id, v, _timestamp) VALUES (1, 'before', now())")
        assert played.play((1, "a"), (2, "b")).details["left_alone"] == 1
        assert played.told() == (1, 0, 1)
        played.table.run("UPDATE {table} SET _timestamp = now() WHERE id = 2")
        assert played.told() == (0, 1, 1)

    def test_an_earlier_row_under_newer_is_no_excuse(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        played = made(sandbox, schema, columns, "newer")
        played.table.run("INSERT INTO {table} (id, v, _timestamp) VALUES (1, 'before', now())")
        played.play((1, "a"), (2, "b"))
        played.table.run("UPDATE {table} SET _timestamp = 'epoch' WHERE id = 1")
        assert played.told() == (1, 1, 0)

    def test_one_that_update_replaced_is_known(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        played = made(sandbox, schema, columns, "update")
        played.table.run("INSERT INTO {table} (id, v) VALUES (1, 'before')")
        played.play((1, "a"), (2, "b"))
        assert played.told() == (2, 0, 0)
        played.table.run("UPDATE {table} SET v = 'before' WHERE id = 1")
        assert played.told() == (1, 1, 0)


class TestTombstones:
    @pytest.mark.parametrize("rule", ["ignore", "update"])
    def test_a_delete_beside_excuses_nothing(
        self, sandbox: Endpoints, schema: str, columns: str, rule: Any
    ) -> None:
        played = made(sandbox, schema, columns, rule, tombstones="delete")
        played.play((1, "a"), (2, "b"), (3, "c"))
        assert played.play((1, None)).details["deleted"] == 1
        assert played.told() == (4, 0, 0)
        played.table.run(MISSING)
        assert played.told() == (3, 1, 0)
        assert played.kinds() == [("missing", 2)]

    def test_what_came_back_is_reported(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        played = made(sandbox, schema, columns, "update", tombstones="delete")
        played.play((1, "a"), (2, "b"))
        played.play((1, None), (3, "c"))
        played.table.run("INSERT INTO {table} (id, v) VALUES (1, 'a')")
        assert played.told() == (2, 2, 0)
        assert played.kinds() == [("extra", 2)]


@pytest.mark.parametrize("rule", ["update", "newer", "ignore"])
def test_what_another_replay_brought_cannot_be_told(
    sandbox: Endpoints, schema: str, rule: str
) -> None:
    played = made(sandbox, schema, PLACED, rule)
    played.play((1, "a"), (2, "b"))
    other = [record(7, {"id": 1, "v": "later"})]
    if rule == "ignore":
        played.table.run("DELETE FROM {table} WHERE id = 1")
    played.table.commit(other, replay="other")
    assert played.told() == (1, 0, 1)
    [found] = [each.text for it in played.found() for each in it.differences]
    assert "claims a record that this replay did not write" in found
    played.table.run("UPDATE {table} SET _offset = 8 WHERE id = 1")
    assert played.told() == (1, 1, 0)


def test_columns_that_earlier_records_named_are_compared_too(
    sandbox: Endpoints, schema: str
) -> None:
    columns = "id int PRIMARY KEY, a int, b int"
    played = Played(Table.made(sandbox.database_url, schema, columns, on_conflict="update"))
    for start, values in ((0, [{"id": 1, "a": 5}, {"id": 1, "b": 6}]), (2, [{"id": 1, "b": 7}])):
        rows = [record(start + n, value) for n, value in enumerate(values)]
        played.slices.append((played.table.commit(rows), rows))
    assert played.table.rows() == [(1, 5, 7)]
    assert played.told() == (3, 0, 0)
    played.table.run("UPDATE {table} SET a = 9")
    assert played.told() == (0, 3, 0)


def test_a_column_that_no_record_fills_is_empty_in_new_rows(
    sandbox: Endpoints, schema: str
) -> None:
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v text, remark text")
    played = Played(table)
    played.play((1, "a"), (2, "b"))
    played.table.run("UPDATE {table} SET remark = 'x' WHERE id = 2")
    assert played.told() == (1, 1, 0)


class TestWithoutAnythingThatTellsRowsApart:
    def test_rows_of_several_slices_do_not_stand_for_each_other(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        played = Played(Table.made(sandbox.database_url, schema, "id int, v text"))
        played.play((1, "a"), (2, "b"))
        played.play((1, "a"), (2, "b"))
        assert played.told() == (4, 0, 0)
        played.table.run("DELETE FROM {table} WHERE ctid = (SELECT min(ctid) FROM {table})")
        assert played.told() == (3, 1, 0)

    def test_one_too_many_cannot_be_told(self, sandbox: Endpoints, schema: str) -> None:
        played = Played(Table.made(sandbox.database_url, schema, "id int, v text"))
        played.play((1, "a"), (2, "b"))
        played.table.run("INSERT INTO {table} VALUES (1, 'a')")
        assert played.told() == (1, 0, 1)

    def test_by_place_one_too_many_is_one(self, sandbox: Endpoints, schema: str) -> None:
        columns = "v text, _topic text, _partition int, _offset int8"
        played = Played(Table.made(sandbox.database_url, schema, columns))
        played.play((1, "a"), (2, "b"))
        assert played.told() == (2, 0, 0)
        played.table.run("INSERT INTO {table} VALUES ('a', 'cars', 0, 0)")
        assert played.told() == (2, 1, 0)


def test_a_key_that_only_looks_otherwise_is_a_difference(sandbox: Endpoints, schema: str) -> None:
    """Its unique index calls 1 and 1.00 equal, so the row is found; but no record wrote 1.00."""
    played = Played(Table.made(sandbox.database_url, schema, "id numeric UNIQUE, v text"))
    played.play((1, "a"), (2, "b"))
    assert played.told() == (2, 0, 0)
    played.table.run("UPDATE {table} SET id = 1.00 WHERE id = 1")
    assert played.told() == (1, 1, 0)
    assert played.kinds() == [("changed", 0)]


class TestSkipped:
    def test_what_is_refused_again_is_told(self, sandbox: Endpoints, schema: str) -> None:
        played = Played(Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v text"))
        rows = [record(0, {"id": 1}), record(1, b"no JSON"), record(2, {"id": "x"})]
        played.slices.append((played.table.commit(rows, rule="skip"), rows))
        assert played.told() == (1, 0, 0)

    def test_what_only_a_constraint_refused_cannot_be_told(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        columns = "id int PRIMARY KEY, v text CHECK (v <> 'bad')"
        played = Played(Table.made(sandbox.database_url, schema, columns))
        assert played.play((1, "a"), (2, "bad"), rule="skip").skipped == 1
        assert played.told() == (1, 0, 1)

    def test_one_that_met_a_row_is_told_by_that_row(self, sandbox: Endpoints, schema: str) -> None:
        played = made(sandbox, schema, PLAIN, "error")
        assert played.play((1, "a"), (1, "b"), rule="skip").skipped == 1
        assert played.told() == (1, 0, 0)


# --- the law: it never says that all is well when the table is not what the log makes of it ----


@dataclass(frozen=True)
class Step:
    id: int
    v: str | None
    ms: int


steps = st.builds(
    Step, st.integers(1, 4), st.sampled_from(["a", "b", "a", "b", None]), st.integers(0, 3)
)
TAMPERED = (
    "DELETE FROM {table} WHERE id = %s",
    "UPDATE {table} SET v = 'a' WHERE id = %s",
    "UPDATE {table} SET _timestamp = _timestamp + interval '9 s' WHERE id = %s",
    "UPDATE {table} SET _offset = _offset + 1 WHERE id = %s",
    "UPDATE {table} SET v = 'z', _offset = 1, _timestamp = 'infinity' WHERE id = %s",
    "INSERT INTO {table} (id, v) VALUES (%s, 'b') ON CONFLICT DO NOTHING",
)
tampering = st.lists(st.tuples(st.sampled_from(TAMPERED), st.integers(1, 4)), max_size=2)


def naive(log: list[tuple[int, int, Step]], rule: str) -> dict[int, tuple[Any, ...]]:
    """Of each key the last of the log, or the first, or the latest; one record after the other."""
    rows: dict[int, tuple[Any, ...]] = {}
    word: dict[int, int] = {}
    for partition, offset, step in log:
        has = step.id in rows
        if rule == "newer" and step.ms < word.get(step.id, step.ms):
            continue
        if rule == "ignore" and has and step.v is not None:
            continue
        word[step.id] = step.ms
        rows.pop(step.id, None)
        if step.v is not None:
            rows[step.id] = (step.v, partition, offset, NOON_MS + step.ms)
    return rows


@pytest.fixture
def placed(sandbox: Endpoints, schema: str) -> Table:
    return Table.made(sandbox.database_url, schema, PLACED, tombstones="delete")


logs = st.lists(st.lists(steps, min_size=1, max_size=5), min_size=1, max_size=4)
befores = st.sets(st.integers(1, 4), max_size=2)


def few(examples: int) -> Any:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@pytest.mark.parametrize("rule", ["ignore", "update", "newer"])
@few(8)
@given(log=logs, before=befores, tampered=tampering)
def test_it_never_says_that_all_is_well_when_it_is_not(
    placed: Table, rule: str, log: Any, before: Any, tampered: Any
) -> None:
    holds(placed, rule, log, before, tampered)


@pytest.mark.torture
@pytest.mark.parametrize("rule", ["ignore", "update", "newer"])
@few(100)
@given(log=logs, before=befores, tampered=tampering)
def test_nor_after_many_more(
    placed: Table, rule: str, log: Any, before: Any, tampered: Any
) -> None:
    holds(placed, rule, log, before, tampered)


def holds(
    placed: Table,
    rule: str,
    log: list[list[Step]],
    before: set[int],
    tampered: list[tuple[str, int]],
) -> None:
    table = placed.with_options(on_conflict=rule)
    there_before = ", ".join(f"({id_}, 'old', 'epoch')" for id_ in sorted(before))
    insert = f"INSERT INTO {{table}} (id, v, _timestamp) VALUES {there_before};" if before else ""
    table.run(f'TRUNCATE {{table}}; TRUNCATE "{table.schema}".ledger; {insert}')
    flat: list[tuple[int, int, Step]] = []
    slices: list[list[Record]] = []
    for steps_ in log:
        numbered = [(0, len(flat) + n, step) for n, step in enumerate(steps_)]
        slices.append([_as_record(at, step) for _, at, step in numbered])
        flat += numbered
    with table.target.open(REPLAY) as writer:
        for rows in slices:
            slice_ = Slice("cars", 0, rows[0].offset, rows[-1].offset + 1)
            writer.commit(account_of(slice_, rows), [Records.of(rows)])
    for statement, id_ in tampered:
        table.run(statement, id_)
    wanted = naive(flat, rule)
    of_replay = {step.id for _, _, step in flat}
    there = {id_: tuple(rest) for id_, *rest in table.rows(SHOWN) if id_ in of_replay}
    played = Played(table, list(zip(table.target.entries(REPLAY), slices, strict=True)))
    same, different, unknown = played.told()
    if different == unknown == 0:
        assert there == wanted
    if there == wanted and not tampered and not before:
        assert (same, different, unknown) == (len(flat), 0, 0)


SHOWN = (
    "id, v, _partition, _offset, "
    "CASE WHEN isfinite(_timestamp) THEN (extract(epoch FROM _timestamp) * 1000)::int8 END"
)


def _as_record(offset: int, step: Step) -> Record:
    value = None if step.v is None else {"id": step.id, "v": step.v}
    return record(offset, value, key=str(step.id).encode(), ms=NOON_MS + step.ms)


# --- a key in several partitions ---------------------------------------------------------------


class TestOneKeyInSeveralPartitions:
    def commit(self, table: Table, *rows: Record) -> Played:
        played = Played(table)
        for row in rows:
            played.slices.append((table.commit([row]), [row]))
        return played

    def of(self, partition: int, v: str, ms: int = NOON_MS) -> Record:
        return record(5, {"id": 1, "v": v}, partition=partition, ms=ms)

    def test_any_partitions_own_last_row_is_right(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, columns, on_conflict="update")
        played = self.commit(table, self.of(1, "b"), self.of(0, "a"))
        assert played.told() == (2, 0, 0)
        table.run("UPDATE {table} SET v = 'b'" + (", _partition = 1" if columns == PLACED else ""))
        assert played.told() == (2, 0, 0)
        table.run("UPDATE {table} SET v = 'c'")
        assert played.told() == (0, 2, 0)

    def test_under_newer_only_the_latest_is(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, columns, on_conflict="newer")
        played = self.commit(table, self.of(1, "b"), self.of(0, "a"), self.of(2, "c", NOON_MS - 1))
        assert table.column("v", "1") == ["b"]
        assert played.told() == (3, 0, 0)
        table.run("UPDATE {table} SET v = 'a'" + (", _partition = 0" if columns == PLACED else ""))
        assert played.told() == (0, 3, 0)

    @pytest.mark.parametrize("rule", ["update", "newer"])
    def test_columns_that_only_other_partitions_name_are_compared_too(
        self, sandbox: Endpoints, schema: str, rule: Any
    ) -> None:
        columns = f"{PLACED}, w text, x text DEFAULT 'own'"
        table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule)
        named = [{"id": 1, "w": "a"}, {"id": 1, "v": "b"}, {"id": 2, "v": "c"}, {"id": 2, "v": "d"}]
        played = Played(table)
        for n, value in enumerate(named):
            row = record(5 + n, value, partition=n % 2, ms=NOON_MS + n)
            played.slices.append((table.commit([row]), [row]))
        assert table.rows("v, w, x") == [("b", "a", "own"), ("d", None, "own")]
        assert played.told() == (4, 0, 0)
        for changed in ("'z'", "NULL"):
            table.run(f"UPDATE {{table}} SET w = {changed} WHERE id = 1")
            assert played.told() == (2, 0, 2)
        assert played.kinds() == [("unknown", 5 if rule == "update" else 6)]

    def test_under_newer_the_latest_that_names_a_column_decides(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        columns = f'{columns}, w text, "n{{}}" int'
        more = {"on_conflict": "newer", "version_column": "n{}"}
        table = Table.made(sandbox.database_url, schema, columns, **more)
        played = Played(table)
        for n, value in enumerate([{"w": "a"}, {"w": "b"}, {"v": "c"}]):
            row = record(5, {"id": 1, "n{}": n} | value, partition=n)
            played.slices.append((table.commit([row]), [row]))
        assert played.told() == (3, 0, 0)
        table.run("UPDATE {table} SET w = 'a'")
        assert played.told() == (0, 0, 3)

    def test_under_ignore_a_row_is_of_one_record(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, f"{columns}, w text", on_conflict="ignore")
        played = Played(table)
        for n, value in enumerate([{"v": "a"}, {"w": "b"}]):
            row = record(5, {"id": 1} | value, partition=n)
            played.slices.append((table.commit([row]), [row]))
        assert played.told() == (2, 0, 0)
        table.run("UPDATE {table} SET v = 'zzz'")
        assert played.told() == (0, 2, 0)

    def test_under_update_any_of_several_partitions_may_have_left_a_column(
        self, sandbox: Endpoints, schema: str, columns: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, f"{columns}, w text", on_conflict="update")
        played = Played(table)
        named = [{"v": "0", "w": "0"}, {"v": "1"}, {"w": "2"}]
        for n, value in enumerate(named):
            row = record(5, {"id": 1} | value, partition=n)
            played.slices.append((table.commit([row]), [row]))
        assert table.rows("v, w") == [("1", "2")]
        assert played.told() == (3, 0, 0)
        table.run("UPDATE {table} SET v = '0'")
        assert played.told() == (3, 0, 0)
        table.run("UPDATE {table} SET v = '2'")
        assert played.told() == (0, 0, 3)


@pytest.mark.parametrize(
    "change",
    [
        "partition = 1",
        "from_offset = -1",
        "to_offset = 3",
        "entry = jsonb_set(entry, '{topic}', '\"other\"')",
    ],
)
def test_a_ledger_whose_columns_and_entry_differ_is_refused(
    sandbox: Endpoints, schema: str, change: str
) -> None:
    played = made(sandbox, schema, PLAIN, "update")
    played.play((1, "a"), (2, "b"))
    table = played.table
    table.run(f"UPDATE {table.schema}.ledger SET {change}")
    with pytest.raises(LedgerUnreadable, match="the row of"):
        table.target.entries(REPLAY)


def test_a_live_pipeline_does_not_extend_such_an_entry(sandbox: Endpoints, schema: str) -> None:
    played = made(sandbox, schema, PLAIN, "update")
    played.play((1, "a"), (2, "b"))
    table = played.table
    table.run(f"UPDATE {table.schema}.ledger SET to_offset = 3")
    rows = [record(3, {"id": 3, "v": "c"}, key=b"3")]
    account = account_of(Slice("cars", 0, 3, 4), rows)
    account.is_endless = True
    with (
        table.target.open(REPLAY) as writer,
        pytest.raises(LedgerUnreadable, match="the row of"),
    ):
        writer.commit(account, [Records.of(rows)])
    assert table.column("id", "id") == [1, 2]
