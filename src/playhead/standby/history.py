"""The history of standbys: their runs with trigger, span and outcome."""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playhead.errors import UsageError
from playhead.grammar.instant import show_ms
from playhead.plan import Plan
from playhead.replay.journal import NEW_SUMMARY, Journal, JournalEntry, Summary, summary_of

_SCHEMA = """
CREATE TABLE IF NOT EXISTS triggered (
    replay_id TEXT PRIMARY KEY, standby TEXT NOT NULL, trigger TEXT NOT NULL, span TEXT NOT NULL,
    at_ms INTEGER NOT NULL, error TEXT
)
"""
_SUMMARY = ("source", "target", "planned")
# The large plan only where an earlier version left no summary. SQLite keeps values of any kind in any column.
_LISTED = """
SELECT id, CAST(made_at_ms AS INTEGER) AS made_at_ms, state,
    iif(typeof(replays.error) = 'blob', NULL, replays.error) AS error, proof, source, target, planned,
    standby, trigger, iif(source IS NULL, plan, NULL) AS plan
FROM replays LEFT JOIN summaries USING (id) LEFT JOIN triggered ON replay_id = id
WHERE typeof(id) = 'text' AND (:id IS NULL OR id = :id) AND (:since IS NULL OR made_at_ms >= :since)
    AND (:kind IS NULL OR :kind = iif(standby IS NULL, 'replay', 'standby'))
ORDER BY made_at_ms DESC, id LIMIT :most
"""
NOT_RUN = "not run"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Triggered:
    """One run of a standby, from its trigger on."""

    replay_id: str
    standby: str
    trigger: str
    """What triggered it: `command`, `file NAME`, `python`."""
    span: str
    at_ms: int
    error: str | None
    run: JournalEntry | None
    """None while there is no plan, and if the journal's row cannot be read."""
    is_readable: bool = True

    @property
    def outcome(self) -> str:
        if self.run is None:
            return NOT_RUN if self.is_readable else UNREADABLE
        return self.run.state

    def as_row(self) -> dict[str, Any]:
        totals = _totals_of(self.run.proof if self.run else None)
        return {
            "id": self.replay_id,
            "at": show_ms(self.at_ms),
            "trigger": self.trigger,
            "span": self.span,
            "outcome": self.outcome,
            "planned": self.run.plan.planned if self.run else None,
            "written": totals.get("written"),
            "missing": totals.get("missing"),
            "error": self.run.error if self.run else self.error,
        }


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One line of the list of runs, for which the plan is not read."""

    replay_id: str
    made_at_ms: int
    state: str
    error: str | None
    source: str | None
    """None, like target and planned, if the plan cannot be read."""
    target: str | None
    planned: int | None
    totals: Mapping[str, Any]
    standby: str | None
    trigger: str | None


class History(Journal):
    """The journal, with the trigger of each standby's run."""

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with super()._opened() as connection:
            connection.execute(_SCHEMA)
            yield connection

    def note_trigger(self, replay_id: str, standby: str, trigger: str, span: str) -> None:
        """Store a trigger; the same run triggered again is resumed."""
        with self._opened() as connection:
            connection.execute(
                "INSERT INTO triggered VALUES (?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (replay_id) DO UPDATE SET error = NULL",
                (replay_id, standby, trigger, span, time.time_ns() // 1_000_000),
            )

    def note_error(self, replay_id: str, error: str) -> None:
        """Store why a run failed."""
        with self._opened() as connection:
            connection.execute(
                "UPDATE triggered SET error = ? WHERE replay_id = ?", (error, replay_id)
            )

    def trigger_of(self, replay_id: str) -> Triggered | None:
        found = self._triggered("replay_id", replay_id)
        return found[0] if found else None

    def listed(
        self,
        *,
        most: int = -1,
        since_ms: int | None = None,
        kind: str | None = None,
        replay_id: str | None = None,
    ) -> list[ListedRun]:
        """Return lines of the list of runs, latest first; all, or at most `most`."""
        with self._opened() as connection:
            rows = connection.execute(
                _LISTED, {"since": since_ms, "kind": kind, "id": replay_id, "most": most}
            ).fetchall()
            plans = {row["id"]: _summary(row) for row in rows if row["source"] is None}
            connection.executemany(NEW_SUMMARY, filter(None, plans.values()))
        return [self._listed(row, plans.get(row["id"])) for row in rows]

    def _listed(self, row: sqlite3.Row, plan: Summary | None) -> ListedRun:
        _, source, target, planned = plan or (row["id"], *(row[each] for each in _SUMMARY))
        return ListedRun(
            row["id"],
            row["made_at_ms"],
            self.state_of(row),
            row["error"],
            source,
            target,
            planned,
            _totals(row["proof"]),
            row["standby"],
            row["trigger"],
        )

    def triggers(self) -> dict[str, tuple[str, str]]:
        """Return the standby and the trigger of each triggered replay."""
        with self._opened() as connection:
            rows = connection.execute("SELECT replay_id, standby, trigger FROM triggered")
            return {row["replay_id"]: (row["standby"], row["trigger"]) for row in rows}

    def of(self, standby: str, *, most: int = -1) -> list[Triggered]:
        """Return the runs of a standby, latest first; all, or at most `most`."""
        return self._triggered("standby", standby, most)

    def _triggered(self, column: str, value: str, most: int = -1) -> list[Triggered]:
        with self._opened() as connection:
            rows = connection.execute(
                f"SELECT * FROM triggered WHERE {column} = ? "  # noqa: S608  one of our two
                "ORDER BY at_ms DESC, rowid DESC LIMIT ?",
                (value, most),
            ).fetchall()
        return [self._with_run(dict(row)) for row in rows]

    def _with_run(self, row: dict[str, Any]) -> Triggered:
        try:
            return Triggered(**row, run=self.get(row["replay_id"]))
        except UsageError as exc:
            return Triggered(**row | {"error": str(exc)}, run=None, is_readable=False)


def _summary(row: sqlite3.Row) -> Summary | None:
    """Return what the list shows of a plan; None if the plan cannot be read."""
    try:
        return summary_of(Plan.from_json(row["plan"], where=f"the journal's plan of {row['id']}"))
    except UsageError:
        return None


def _totals(proof: str | None) -> Mapping[str, Any]:
    """Return the totals of a proof; empty if there is none or it cannot be read."""
    try:
        document = json.loads(proof or "{}")
    except (ValueError, TypeError, RecursionError):
        return {}
    return _totals_of(document)


def _totals_of(document: object) -> Mapping[str, Any]:
    found = document.get("totals") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}
