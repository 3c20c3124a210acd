"""The promise of the list of runs: 10,000 runs list in at most twice the time of 10."""

import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.measure import Row, in_turn, run
from playhead.host.paths import state_dir
from playhead.options.replays import USUAL_RUNS
from playhead.plan import Estimate, PartitionPlan, Plan
from playhead.replay.journal import Journal
from playhead.request import Request
from playhead.source import SourceFacts, TopicFacts
from playhead.target import Inspection

_FEW, _MANY = 10, 10_000
_PARTITIONS = 12
_COPY = """
WITH RECURSIVE number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < ?)
INSERT INTO {table} ({columns}) SELECT {values} FROM {table}, number WHERE id = 'r0'
"""


def rows() -> Iterator[Row]:
    """The whole command, the start of Python included, in turn on two journals."""
    with tempfile.TemporaryDirectory(prefix="playhead-bench-") as name:
        few, many = (_Listing(Path(name) / str(count), count).wall_s for count in (_FEW, _MANY))
        ours, theirs = in_turn(many, few)
        every = in_turn(_Listing(Path(name) / "all", _MANY, "--limit", "0").wall_s)[0]
    note = f"the latest {USUAL_RUNS} of them; with --limit 0, all of them: {every:.2f} s"
    yield Row(
        f"runs, {_MANY:,} in the journal",
        ours,
        "s",
        f"runs, {_FEW} in the journal",
        theirs,
        at_most=2.0,
        note=note,
    )


class _Listing:
    """The command on a journal of so many runs."""

    def __init__(self, folder: Path, count: int, *options: str) -> None:
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
        self._listed = count if options else min(count, USUAL_RUNS)
        self._command = [sys.executable, "-m", "playhead.cli.app", "runs", "-o", "csv", *options]
        _fill(Journal(folder / state_dir().name), count)

    def wall_s(self) -> float:
        done = run(self._command, self._environment)
        listed = done.said.count(",done,")
        if listed != self._listed:
            raise RuntimeError(f"{listed} runs were listed, not {self._listed}")
        return done.wall_s


def _fill(journal: Journal, count: int) -> None:
    """One run that is kept as it always is, and copies of it."""
    journal.keep(_plan(), {})
    journal.note("r0", "done", proof={"totals": {"written": 1_000, "missing": 0}})
    with closing(sqlite3.connect(journal.file)) as connection, connection:
        for table in ("replays", "summaries"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            values = {"id": "'r' || n", "made_at_ms": "made_at_ms + n"}
            copied = ", ".join(values.get(name, name) for name in names)
            statement = _COPY.format(table=table, columns=", ".join(names), values=copied)
            connection.execute(statement, (count - 1,))


def _plan() -> Plan:
    partitions = tuple(
        PartitionPlan("laps", number, 0, 1_000, 1_000, 0, 1_000, 1_000)
        for number in range(_PARTITIONS)
    )
    return Plan(
        "r0",
        Request(source="kafka:laps", target="postgres:laps", span="start..end"),
        1_767_268_800_000,
        None,
        None,
        partitions,
        SourceFacts("here", {"laps": TopicFacts()}),
        Inspection("a table"),
        Estimate(_PARTITIONS * 1_000, None, None, "a guess"),
    )
