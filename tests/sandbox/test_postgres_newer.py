"""Under `newer` the latest record of a key decides, by time, then by partition and offset, whatever is done."""

from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import playhead
from playhead.account import Account
from playhead.host.clock import SystemClock, wait_until
from playhead.host.faults import abort_points
from playhead.postgres.stage import stage
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.sandbox import Endpoints
from playhead.target import Inspection
from playhead.testing import Aborted, armed
from playhead.testing.target_case import terms
from tests.sandbox.postgres_table import NOON_MS, REPLAY, Table, record
from tests.sandbox.postgres_tasks import Turns, emptied, play_in_turns, turns_of

FOLDER = Path(playhead.__file__).parent
Change = tuple[int, int, bool]
"""Key, time, whether it is a tombstone."""
EVENTS = st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans())
HELD = "id int PRIMARY KEY, v text, _timestamp timestamptz"
SHAPES = {
    "time alone": HELD,
    "place": f"{HELD}, _partition int, _offset int8",
    "topic and place": f"{HELD}, _topic text, _partition int, _offset int8",
    "whole seconds": "id int PRIMARY KEY, v text, _timestamp timestamp(0)",
}


def latest_of(logs_: list[list[Change]], shape: str) -> dict[int, str]:
    """Said without any slice, task or statement."""
    seconds = {0: 0, 1: 0, 2: 1}  # of 0, 0.4 and 0.8
    best: dict[int, tuple[tuple[int, int, int], str | None]] = {}
    for partition, log in enumerate(logs_):
        for offset, (key, time, is_tombstone) in enumerate(log):
            rank = seconds[time] if shape == "whole seconds" else time, partition, offset
            text = None if is_tombstone else f"{partition}:{offset}"
            if key not in best or best[key][0] < rank:
                best[key] = rank, text
    return {key: text for key, (_, text) in best.items() if text is not None}


def _event(partition: int, offset: int, event: Change) -> Record:
    key, time, is_tombstone = event
    value = None if is_tombstone else {"id": key, "v": f"{partition}:{offset}"}
    ms = NOON_MS + 400 * time
    return record(offset, value, key=b"%d" % key, ms=ms, partition=partition)


@pytest.fixture(params=SHAPES)
def shaped(request: pytest.FixtureRequest, sandbox: Endpoints, schema: str) -> tuple[Table, str]:
    options = {"on_conflict": "newer", "tombstones": "delete"}
    table = Table.made(sandbox.database_url, schema, SHAPES[request.param], **options)
    return table, request.param


def logs_of(drawn: list[list[Change]]) -> list[list[Record]]:
    return [
        [_event(partition, n, each) for n, each in enumerate(log)]
        for partition, log in enumerate(drawn)
    ]


def forget(table: Table) -> None:
    """As if nothing had ever been replayed."""
    emptied(table)
    kept = table.run(
        "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables "
        "WHERE schemaname = %s AND tablename LIKE 'ledger_latest_%%'",
        table.schema,
    )
    for name in kept:
        table.run(f"TRUNCATE {name[0]}")


def decides(
    shaped: tuple[Table, str], drawn: list[list[Change]], how: tuple[list[int], Turns]
) -> None:
    table, shape = shaped
    forget(table)
    logs_ = logs_of(drawn)
    play_in_turns(table, logs_, *how)
    assert dict(table.rows("id, v")) == latest_of(drawn, shape)
    entries = table.target.entries(REPLAY)
    found = table.compared(
        *(
            (entry, [r for r in logs_[entry.slice.partition] if r in entry.slice])
            for entry in entries
        )
    )
    assert not any(each.different or each.unknown for each in found), found


laws = given(
    drawn=st.lists(st.lists(EVENTS, max_size=8), min_size=3, max_size=3),
    how=st.tuples(st.lists(st.integers(1, 6), min_size=6, max_size=6), turns_of(3)),
)
fixed = [HealthCheck.function_scoped_fixture]


@settings(max_examples=6, deadline=None, suppress_health_check=fixed)
@laws
def test_the_latest_record_of_a_key_decides(shaped: Any, drawn: Any, how: Any) -> None:
    decides(shaped, drawn, how)


@pytest.mark.torture
@settings(max_examples=150, deadline=None, suppress_health_check=fixed)
@laws
def test_the_latest_record_of_a_key_always_decides(shaped: Any, drawn: Any, how: Any) -> None:
    decides(shaped, drawn, how)


# --- one by one


def commit(table: Table, rows: list[Record], *, replay: str = REPLAY) -> Any:
    return table.commit(rows, replay=replay)


def made(sandbox: Endpoints, schema: str, columns: str, **options: Any) -> Table:
    given_ = {"on_conflict": "newer", **options}
    return Table.made(sandbox.database_url, schema, columns, **given_)


def test_what_was_deleted_stays_deleted(sandbox: Endpoints, schema: str) -> None:
    """An older record comes later: in the same slice, in the next one, in another partition."""
    table = made(sandbox, schema, HELD, tombstones="delete")
    commit(
        table,
        [_event(1, 0, (1, 1, False)), _event(1, 1, (1, 2, True)), _event(1, 2, (1, 0, False))],
    )
    assert table.rows() == []
    commit(table, [_event(1, 3, (1, 0, False))])
    commit(table, [_event(0, 0, (1, 2, False))])
    assert table.rows() == []
    entry = commit(table, [_event(2, 0, (1, 2, False)), _event(2, 1, (2, 0, False))])
    assert dict(table.rows("id, v")) == {1: "2:0", 2: "2:1"}
    assert entry.details == {"way": "staged", "inserted": 2, "updated": 0, "left_alone": 0}


@pytest.mark.torture(one_of=3)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_of_one_time_the_higher_place_decides(
    shaped: tuple[Table, str], order: tuple[int, ...]
) -> None:
    """A row, a tombstone before a row, and a tombstone after one; whichever partition comes when."""
    table, _ = shaped
    drawn = [
        [(key, 0, (key, partition) in ((1, 0), (2, 2))) for key in range(3)]
        for partition in range(3)
    ]
    for partition in order:
        for start in range(3):
            commit(table, logs_of(drawn)[partition][start : start + 1])
    assert dict(table.rows("id, v")) == {0: "2:0", 1: "2:1"}


def test_a_tombstone_that_deletes_nothing_is_remembered_too(
    sandbox: Endpoints, schema: str
) -> None:
    table = made(sandbox, schema, HELD, tombstones="delete")
    commit(table, [_event(0, 0, (1, 1, True))])
    entry = commit(table, [_event(0, 1, (1, 0, False)), _event(0, 2, (2, 0, False))])
    assert dict(table.rows("id, v")) == {2: "0:2"}
    assert entry.details["superseded"] == 1


def test_what_another_replay_deleted_is_not_its_business(sandbox: Endpoints, schema: str) -> None:
    """A replay of an older span brings back what was there then."""
    table = made(sandbox, schema, HELD, tombstones="delete")
    commit(table, [_event(0, 0, (1, 1, False)), _event(0, 1, (1, 2, True))])
    assert commit(table, [_event(0, 0, (1, 1, False))], replay="again").details["way"] == "direct"
    assert dict(table.rows("id, v")) == {1: "0:0"}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_records_without_a_version_are_before_all_others(
    sandbox: Endpoints, schema: str, order: tuple[int, ...]
) -> None:
    columns = "id int PRIMARY KEY, v text, n int"
    table = made(sandbox, schema, columns, version_column="n")
    versions = ((None, 3, None), (7, None, None), (None, None, 3))
    for partition in order:
        rows = [
            record(
                offset,
                {"id": key, "v": f"{partition}:{offset}", "n": versions[partition][key]},
                partition=partition,
            )
            for offset, key in enumerate((0, 1, 2))
        ]
        commit(table, rows)
    assert table.rows("id, v, n") == [(0, "1:0", 7), (1, "0:1", 3), (2, "2:2", 3)]
    table.run("TRUNCATE {table}")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_of_several_without_a_version_the_last_partition_decides(
    sandbox: Endpoints, schema: str, order: tuple[int, ...]
) -> None:
    table = made(sandbox, schema, "id int PRIMARY KEY, v text, n int", version_column="n")
    for partition in order:
        for offset in (0, 1):
            value = {"id": 1, "v": f"{partition}:{offset}"}
            commit(table, [record(offset, value, partition=partition)])
    assert table.rows("v") == [("2:1",)]


def test_partitions_that_commit_at_the_same_moment(sandbox: Endpoints, schema: str) -> None:
    """Nobody overlooks what another one has not committed yet."""
    table = made(sandbox, schema, HELD, tombstones="delete")
    drawn = [
        [
            ((n * 7 + partition) % 5, (n * n + partition) % 3, (n + partition) % 4 == 0)
            for n in range(60)
        ]
        for partition in range(3)
    ]
    logs_ = logs_of(drawn)
    failures: list[BaseException] = []

    def work(partition: int) -> None:
        try:
            with table.target.open(REPLAY) as writer:
                for start in range(0, 60, 5):
                    account = Account(Slice("cars", partition, start, start + 5))
                    account.read = 5
                    writer.commit(account, [Records.of(logs_[partition][start : start + 5])])
        except BaseException as exc:
            failures.append(exc)

    threads = [Thread(target=work, args=(partition,)) for partition in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert dict(table.rows("id, v")) == latest_of(drawn, "time alone")


def test_partitions_take_turns(
    sandbox: Endpoints, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tombstone that is not committed yet is waited for, by an older record of another partition."""
    table = made(sandbox, schema, HELD, tombstones="delete")
    reached, may_go_on = Event(), Event()

    def held(name: str) -> None:
        if name == "postgres.latest.tombstones_kept":
            reached.set()
            assert may_go_on.wait(60)

    monkeypatch.setattr(stage, "abort_point", held)
    first = Thread(target=commit, args=(table, [_event(1, 0, (1, 2, True))]))
    second = Thread(target=commit, args=(table, [_event(2, 0, (1, 1, False))]))
    first.start()
    assert reached.wait(60)
    second.start()
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    assert wait_until(
        lambda: not second.is_alive() or table.run(waits) == [(1,)],
        deadline_s=60,
        clock=SystemClock(),
        every_s=0.02,
    )
    may_go_on.set()
    first.join()
    second.join()
    assert len(table.target.entries(REPLAY)) == 2
    assert table.rows() == []


POINTS = [name for name in abort_points(FOLDER) if name.startswith("postgres.latest.")]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("passing", [1, 2])
def test_dead_in_between(sandbox: Endpoints, schema: str, point: str, passing: int) -> None:
    """What is remembered, and what is written, are one transaction."""
    table = made(sandbox, schema, HELD, tombstones="delete")
    drawn = [
        [],
        [(1, 1, False), (1, 2, True), (2, 1, True), (1, 1, False), (2, 0, False), (2, 2, True)],
    ]
    slices = [(0, 2), (2, 4), (4, 6)]

    def run() -> None:
        known = [entry.slice.from_offset for entry in table.target.entries(REPLAY)]
        for start, end in slices:
            if start not in known:
                commit(table, logs_of(drawn)[1][start:end])

    with armed(f"{point}#{passing}=raise"), pytest.raises(Aborted):
        run()
    run()
    assert table.rows() == []
    assert len(table.target.entries(REPLAY)) == 3


@pytest.mark.parametrize(
    ("kind", "one", "same"),
    [
        ("char(4)", "a", "a  "),
        ("varchar(3)", "ab ", "ab       "),
        ("timestamptz(0)", "2021-08-04T12:30:00Z", "2021-08-04T12:30:00.2Z"),
        ("numeric(6,1)", "1.5", "1.51"),
        ("float8", "0", "-0"),
        ("interval", "24:00:00", "1 day"),
        ("inet", "10.0.0.1", "10.0.0.1/32"),
        ('text COLLATE "POSIX"', "é", "é"),
    ],
)
def test_keys_that_the_columns_type_takes_for_one(
    sandbox: Endpoints, schema: str, kind: str, one: str, same: str
) -> None:
    columns = f'"a {{b}} %" {kind}, v text, _timestamp timestamptz, PRIMARY KEY ("a {{b}} %")'
    table = made(sandbox, schema, columns, tombstones="delete")
    commit(table, [record(0, None, key=one.encode(), ms=NOON_MS + 5, partition=1)])
    entry = commit(table, [record(1, {"a {b} %": same, "v": "old"}, ms=NOON_MS, partition=1)])
    assert (table.rows(), entry.details["superseded"]) == ([], 1)
    commit(table, [record(0, {"a {b} %": same, "v": "later"}, ms=NOON_MS + 5, partition=2)])
    commit(table, [record(2, {"a {b} %": one, "v": "tie"}, ms=NOON_MS + 5, partition=1)])
    assert table.rows("v") == [("later",)]
    commit(table, [record(0, {"a {b} %": one, "v": "tie"}, ms=NOON_MS + 5)])
    assert table.rows("v") == [("later",)]


def test_a_replay_that_an_older_version_began(sandbox: Endpoints, schema: str) -> None:
    """It kept nothing, and that is said; not of one that this version began."""
    table = made(sandbox, schema, HELD, tombstones="delete")

    def told() -> list[str]:
        notes = table.target.prepare(REPLAY, Inspection(""), terms())
        return [note.code for note in notes]

    assert told() == []
    commit(table, [_event(0, 0, (1, 1, True))])
    assert told() == []
    [(kept,)] = table.run(
        "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables "
        "WHERE schemaname = %s AND tablename LIKE 'ledger_latest_%%'",
        table.schema,
    )
    table.run(f"DROP TABLE {kept}")
    assert told() == ["not-remembered"]


def test_a_tombstone_that_is_refused_is_none(sandbox: Endpoints, schema: str) -> None:
    """Neither to its own slice nor to what comes later."""
    table = made(sandbox, schema, HELD, tombstones="delete")
    table.run(
        f"""CREATE TABLE "{schema}".refers (id int REFERENCES {{table}} ON DELETE RESTRICT)"""
    )
    commit(table, [_event(1, 0, (1, 0, False))])
    table.run(f'INSERT INTO "{schema}".refers VALUES (1)')
    entry = table.commit([_event(1, 1, (1, 2, True)), _event(1, 2, (1, 1, False))], rule="skip")
    assert (entry.written, entry.skipped) == (1, 1)
    assert dict(table.rows("id, v")) == {1: "1:2"}


def test_a_refused_record_is_not_the_latest(sandbox: Endpoints, schema: str) -> None:
    columns = "id int PRIMARY KEY, v text CHECK (v <> '1:1'), _timestamp timestamptz"
    table = made(sandbox, schema, columns, tombstones="delete")
    rows = [_event(1, 0, (1, 0, False)), _event(1, 1, (1, 2, False))]
    table.commit(rows, rule="skip")
    commit(table, [_event(2, 0, (1, 1, False))])
    assert dict(table.rows("id, v")) == {1: "2:0"}
