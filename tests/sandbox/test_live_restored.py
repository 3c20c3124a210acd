"""A database that is restored, or replaced by a standby without its last commits, while a pipeline writes into it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from playhead.account import ErrorRule
from playhead.live.lost_entries import OnlyEntriesLost, refuse_second_rows
from playhead.live.progress import LedgerWentBack, PipelineProgress
from playhead.live.round_loop import Rounds
from playhead.records import Records
from playhead.replay.pipelines import pipeline_id
from playhead.sandbox import Endpoints
from playhead.target import Inspection
from playhead.task import round as rounds
from playhead.task.round import Outcome, Round
from playhead.testing.target_case import terms
from tests.sandbox.postgres_table import Table, record

PLACE = ("cars", 0)
NAME = "cars"
COLUMNS = "v int, _topic text, _partition int, _offset int8"


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    rounds.let_go()
    yield
    rounds.let_go()


@pytest.fixture(params=[None, "update"])
def table(request: pytest.FixtureRequest, sandbox: Endpoints, schema: str) -> Table:
    rule = request.param
    columns = COLUMNS if rule is None else f"{COLUMNS}, PRIMARY KEY (v)"
    made = Table.made(sandbox.database_url, schema, columns, on_conflict=rule, is_endless=True)
    made.target.prepare(pipeline_id(NAME), Inspection(""), terms("cars"))
    return made


def written(_frame: Any, round_: Round) -> list[Outcome]:
    """Write what is due, as a task of the engine does."""
    rows = [
        Records.of([record(n, {"v": n}) for n in range(each.from_offset, each.to_offset)])
        for each in round_.slices
    ]
    return [rounds.write(round_, ((each, None) for each in rows))]


class Playing:
    """The rounds of a pipeline without an engine."""

    def __init__(self, table: Table, committed: dict[tuple[str, int], int] | None = None) -> None:
        self.standing = PipelineProgress({PLACE: 0, **(committed or {})}, committed or {})
        request = SimpleNamespace(spec=SimpleNamespace(on_error=ErrorRule(), is_transformed=False))
        ground = SimpleNamespace(
            wish=SimpleNamespace(name=NAME, request=request, drop_when_down=False),
            ends=SimpleNamespace(
                target=table.target, dead_letters=None, decoding=None, source=None
            ),
            standing=self.standing,
            stop_file=None,
            say=lambda _: None,
            hold=SimpleNamespace(renew=lambda: None),
            move_group=lambda _: None,
            slots=1,
            decodes_first=False,
            is_stopped=lambda: False,
            run="a run",
        )
        engine = SimpleNamespace(write=written, has_died=lambda: False)
        self.rounds = Rounds(ground, engine)  # type: ignore[arg-type]

    def up_to(self, end: int) -> None:
        self.rounds._play(None, {PLACE: end})


def offsets(table: Table) -> list[int]:
    return table.column("_offset")


def ledger(table: Table) -> list[tuple[int, int]]:
    found = [each.slice for each in table.target.entries(pipeline_id(NAME))]
    return [(each.from_offset, each.to_offset) for each in found]


def back_up(table: Table) -> None:
    for name in ("ledger", "cars"):
        table.run(f"CREATE TABLE {table.schema}.{name}_then AS TABLE {table.schema}.{name}")


def restore(table: Table) -> None:
    for name in ("ledger", "cars"):
        there = f"{table.schema}.{name}"
        table.run(f"DELETE FROM {there}")
        table.run(f"INSERT INTO {there} TABLE {there}_then")


def restart(table: Table) -> None:
    """End all other connections, as a restart or a failover does."""
    table.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND datname = current_database()"
    )


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_pipeline_leaves_out_nothing_of_what_a_restored_database_lacks(
    table: Table, is_restarted: bool
) -> None:
    playing = Playing(table)
    playing.up_to(4)
    back_up(table)
    playing.up_to(8)
    assert (offsets(table), ledger(table)) == ([*range(8)], [(0, 8)])
    restore(table)
    if is_restarted:
        restart(table)
    with pytest.raises(LedgerWentBack, match="ends at 4"):
        playing.up_to(12)
    assert (offsets(table), ledger(table)) == ([*range(4)], [(0, 4)])
    again = Playing(table, {PLACE: 4})
    again.up_to(12)
    assert (offsets(table), ledger(table)) == ([*range(12)], [(0, 12)])


def test_rows_whose_entries_alone_are_gone_are_refused(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, COLUMNS, is_endless=True)
    table.commit([record(n, {"v": n}) for n in range(8)])

    def again(at: int, rule: str | None = None) -> None:
        spec = SimpleNamespace(table=SimpleNamespace(on_conflict=rule))
        wish: Any = SimpleNamespace(name=NAME, request=SimpleNamespace(spec=spec))
        refuse_second_rows(wish, table.target, {PLACE: 8}, {PLACE: at})

    with pytest.raises(OnlyEntriesLost, match="4 rows of cars:0:4-8"):
        again(4)
    again(8)
    again(4, "update")
    table.run("DELETE FROM {table} WHERE _offset >= 4")
    again(4)
