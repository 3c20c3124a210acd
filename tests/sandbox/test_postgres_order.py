"""The last record of a key wins in a table: however the plan is cut, whoever commits, whatever died."""

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playhead.account import Account
from playhead.postgres.target import PostgresTarget
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.sandbox import Endpoints
from playhead.target import Inspection, InspectRequest, OutOfOrder
from playhead.task.commit_order import OrderBroken
from playhead.task.job import Job
from playhead.task.play import play
from playhead.testing import ListSource
from playhead.testing.target_case import terms
from tests.sandbox.postgres_table import NOON_MS, REPLAY, Table, record
from tests.sandbox.postgres_tasks import Turns, emptied, play_in_turns, turns_of
from tests.unit.replaying import runner, whole_plan

COLUMNS = "id int PRIMARY KEY, v int"


@pytest.fixture
def table(sandbox: Endpoints, schema: str) -> Table:
    return Table.made(sandbox.database_url, schema, COLUMNS, on_conflict="update")


def side_by_side(job: Job) -> list[Mapping[str, Any]]:
    """Each work in a thread of its own, those that come last in the log first."""
    found: list[Mapping[str, Any]] = []

    def work(index: int) -> None:
        found.extend(report.as_document() for report in play(job, index))

    threads = [Thread(target=work, args=(index,)) for index in reversed(range(len(job.tasks)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def last_first(job: Job) -> list[Mapping[str, Any]]:
    """The works one after the other, the last of the log first."""
    tasks = reversed(range(len(job.tasks)))
    return [report.as_document() for index in tasks for report in play(job, index)]


@pytest.mark.parametrize("run_job", [side_by_side, last_first])
def test_each_row_is_the_last_of_its_records(table: Table, tmp_path: Path, run_job: Any) -> None:
    """120,000 records over 60,000 keys, the older half first, more than one task would be given."""
    half = 60_000
    items = [
        record(n, b'{"id":%d,"v":%d}' % (n % half, n), ms=NOON_MS + n) for n in range(2 * half)
    ]
    source = ListSource(items)
    plan = whole_plan(source, replay_id="anew", target=inspected(table, source))
    proof = runner(plan, source, table.target, tmp_path, run_job=run_job, slots=2).run()
    assert proof.adds_up
    assert table.run("SELECT count(*), count(*) FILTER (WHERE v = id + 60000) FROM {table}") == [
        (half, half)
    ]


def inspected(table: Table, source: ListSource) -> Inspection:
    return table.target.inspect(InspectRequest(source.facts(), {"cars": 1}, ()))


def test_what_depends_on_the_order_is_ordered() -> None:
    def is_ordered(**options: Any) -> bool:
        return PostgresTarget("postgresql://", "cars", **options).is_ordered

    assert not is_ordered()
    assert not is_ordered(tombstones="skip")
    assert not is_ordered(tombstones="null")
    for rule in ("ignore", "update", "newer", "error"):
        assert is_ordered(on_conflict=rule)
        assert not is_ordered(on_conflict=rule, key=("_topic", "_partition", "_offset"))
        assert is_ordered(on_conflict=rule, key=("id",))
    assert is_ordered(tombstones="delete")
    assert is_ordered(tombstones="delete", key=("_offset",))


# --- the writers of one partition


def commit(
    table: Table, slice_: Slice, *, follows: int | None = None, replay: str = REPLAY
) -> None:
    rows = [record(n, {"id": n % 3, "v": n}) for n in range(slice_.from_offset, slice_.to_offset)]
    account = Account(slice_)
    account.follows, account.read = follows, len(rows)
    if table.target.terms(replay) is None:
        table.target.prepare(replay, Inspection(""), terms())
    with table.target.open(replay) as writer:
        writer.commit(account, [Records.of(rows)])


def test_a_slice_that_comes_late_is_refused(table: Table) -> None:
    commit(table, Slice("cars", 0, 0, 5))
    commit(table, Slice("cars", 0, 10, 15))
    with pytest.raises(OutOfOrder, match="cars:0:10-15, which comes later"):
        commit(table, Slice("cars", 0, 5, 10))
    assert table.rows() == [(0, 12), (1, 13), (2, 14)]
    commit(table, Slice("cars", 1, 5, 10))


def test_a_slice_that_comes_early_is_refused(table: Table) -> None:
    with pytest.raises(OutOfOrder, match="up to 5, are not committed"):
        commit(table, Slice("cars", 0, 5, 10), follows=5)
    commit(table, Slice("cars", 0, 0, 5))
    commit(table, Slice("cars", 0, 5, 10), follows=5)
    with pytest.raises(OutOfOrder, match="up to 20, are not committed"):
        commit(table, Slice("cars", 0, 30, 35), follows=20)
    assert table.rows() == [(0, 9), (1, 7), (2, 8)]


def test_a_pure_insert_may_come_in_any_order(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, "id int, v int")
    commit(table, Slice("cars", 0, 5, 10), follows=5)
    commit(table, Slice("cars", 0, 0, 5))
    assert len(table.rows()) == 10


def test_one_connection_tells_what_many_replays_have_committed(
    sandbox: Endpoints, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.made(sandbox.database_url, schema, "id int, v int")
    replays = [f"{number:04x}" for number in range(6)]
    for number, replay in enumerate(replays[:-1]):
        commit(table, Slice("cars", 0, 0, 1 + number), replay=replay)
    alone = {each: table.target.entries(each) for each in replays}
    opened: list[object] = []
    session = PostgresTarget._session
    monkeypatch.setattr(
        PostgresTarget, "_session", lambda self: opened.append(self) or session(self)
    )
    assert table.target.entries_of(replays) == alone
    assert [sum(len(e.slice) for e in alone[each]) for each in replays] == [1, 2, 3, 4, 5, 0]
    assert len(opened) == 1


def test_holes_that_an_older_version_left_are_not_filled(table: Table, tmp_path: Path) -> None:
    items = [record(n, {"id": n % 3, "v": n}) for n in range(20)]
    source = ListSource(items)
    plan = whole_plan(source, replay_id="anew", target=inspected(table, source))
    commit(table, Slice("cars", 0, 10, 20), replay="anew")
    table.run(f'DELETE FROM "{table.schema}".ledger_replays WHERE replay = %s', "anew")
    with pytest.raises(OrderBroken, match=r"cars:0:10-20 but not cars:0:0-10"):
        runner(plan, source, table.target, tmp_path, run_job=last_first).run()
    assert table.rows() == [(0, 18), (1, 19), (2, 17)]


# --- the law: cuts, partitions, tasks that are started twice or go on when they are thought to be dead

PARTITIONS = 2
KEYS = st.integers(0, 3)
CHANGES = st.tuples(KEYS, st.integers(0, 99) | st.none())
Log = list[tuple[int, int | None]]


@st.composite
def logs(draw: st.DrawFn) -> list[Log]:
    """Of each partition keys and values, of which None is a tombstone; no key is in two partitions."""
    return [
        [
            (PARTITIONS * key + partition, value)
            for key, value in draw(st.lists(CHANGES, max_size=12))
        ]
        for partition in range(PARTITIONS)
    ]


def outcome(logs_: list[Log], rule: str) -> dict[int, int]:
    """One record after the other."""
    rows: dict[int, int] = {}
    for log in logs_:
        for key, value in log:
            if value is None:
                rows.pop(key, None)
            elif rule == "update" or key not in rows:
                rows[key] = value
    return rows


def _record(partition: int, offset: int, key: int, value: int | None) -> Record:
    body = None if value is None else json.dumps({"id": key, "v": value}).encode()
    return record(offset, body, key=b"%d" % key, partition=partition)


@pytest.mark.parametrize("rule", ["ignore", "update"])
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    drawn=logs(),
    cuts=st.lists(st.integers(1, 6), min_size=4, max_size=4),
    turns=turns_of(PARTITIONS),
)
def test_the_table_is_what_the_log_says(
    table: Table, rule: str, drawn: list[Log], cuts: list[int], turns: Turns
) -> None:
    emptied(table)
    table = table.with_options(on_conflict=rule, tombstones="delete")
    items = [
        [_record(partition, n, *each) for n, each in enumerate(log)]
        for partition, log in enumerate(drawn)
    ]
    play_in_turns(table, items, cuts, turns)
    assert dict(table.rows("id, v")) == outcome(drawn, rule)
