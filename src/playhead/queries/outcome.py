"""The outcome of each statement, and the latencies of the queries on the source and on the target."""

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from playhead.pace import ScheduleError
from playhead.queries.concurrency import Concurrency
from playhead.queries.tape import Step


class Outcome(IntEnum):
    """The outcome of a statement; each has exactly one."""

    OPEN = 0
    """No outcome yet."""
    REPLAYED = 1
    EXPECTED_ERROR = 2
    """It failed as on the source."""
    UNEXPECTED_ERROR = 3
    """It failed, and succeeded or failed otherwise on the source."""
    ERROR_MISSING = 4
    """It failed on the source only."""
    FILTERED = 5
    NOT_REPLAYABLE = 6
    IN_DOUBT = 7
    """It is unknown whether it was played; it was not played again."""
    LOST = 8
    """Its connection was lost repeatedly, or the transaction was."""
    EARLIER = 9
    """An earlier run played it, as its mark says."""
    IGNORED = 10
    """It failed on the integrity of tables, or because its transaction had, and `-i` takes that."""


FORCED_ORDER, STATE_LOST = "order_given_up", "state_lost"
"""Incidents of a whole run, which are counted in the ledger besides the outcomes."""
DIVERGENT = (Outcome.UNEXPECTED_ERROR, Outcome.ERROR_MISSING, Outcome.LOST, Outcome.IN_DOUBT)
NAMED = (*DIVERGENT, Outcome.IGNORED)
"""What a mark names, so that a later run knows it."""


@dataclass(slots=True)
class Query:
    """The calls of one query: texts that differ in their values only."""

    calls: int = 0
    rows: int = 0
    then: ScheduleError = field(default_factory=ScheduleError)
    now: ScheduleError = field(default_factory=ScheduleError)
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Played:
    """One play of a statement."""

    outcome: Outcome
    latency_ns: int = 0
    rows: int = 0
    sqlstate: str | None = None
    line: int = -1
    checksum: int | None = None
    """The checksum of its rows; None if it is unknown."""


@dataclass(slots=True)
class Results:
    """The results of a run."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Reasons why statements were not played."""
    errors: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Divergent errors: SQLSTATE on the source, SQLSTATE on the target, query."""
    examples: dict[tuple[str, str, str], str] = field(default_factory=dict)
    in_doubt: list[str] = field(default_factory=list)
    queries: dict[int, Query] = field(default_factory=dict)
    schedule: ScheduleError = field(default_factory=ScheduleError)
    then: Concurrency = field(default_factory=Concurrency)
    """On the source, of the statements that were played and whose duration is known."""
    now: Concurrency = field(default_factory=Concurrency)
    """On the target."""
    played_again: int = 0
    """Statements that the watchdog rolled back and played again; each counts once."""
    overtaken: int = 0
    """How often the watchdog rolled a transaction back."""
    let_pass: int = 0
    """Statements that went although the gate was closed, because another session waited for a lock of theirs."""
    forced: int = 0
    """Statements that were played although the gate was closed, because no session could continue."""
    state_lost: int = 0
    """Connections that were lost with temporary tables, cursors or locks, which a new connection lacks."""
    reconnected: int = 0
    most_connections: int = 0
    seconds: float = 0.0

    def note(self, step: Step, played: Played, text: str) -> None:
        """Count a statement that has its outcome."""
        self.counts[played.outcome] += 1
        if played.outcome in (Outcome.UNEXPECTED_ERROR, Outcome.ERROR_MISSING):
            kind = (step.expected_error or "none", played.sqlstate or "none", text)
            self.errors[kind] += 1
        if not step.sql:
            return
        query = self.queries.get(step.query)
        if query is None:
            query = self.queries[step.query] = Query()
        query.calls += 1
        query.rows += played.rows
        query.now.note(late_ns=played.latency_ns)
        if step.duration_us is not None:
            query.then.note(late_ns=step.duration_us * 1_000)
        if played.sqlstate:
            query.errors[played.sqlstate] += 1

    def note_times(self, step: Step, due_us: int, sent_ns: int, took_ns: int) -> None:
        """Note when a statement ran, on the source and on the target."""
        self.now.note(sent_ns // 1_000, took_ns // 1_000)
        if step.duration_us is not None:
            self.then.note(due_us, step.duration_us)

    def of_the_run(self) -> dict[str, int]:
        """Return the counts that the ledger stores besides the outcomes."""
        counts = {FORCED_ORDER: self.forced, STATE_LOST: self.state_lost}
        return {name: count for name, count in counts.items() if count}

    def details(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {outcome.name.lower(): self.counts[outcome] for outcome in Outcome if outcome}

    @property
    def divergences(self) -> int:
        return sum(self.counts[outcome] for outcome in DIVERGENT)

    def latencies(self, *, then: bool = False) -> ScheduleError:
        """Return the latencies of all statements, on the target or on the source."""
        merged = ScheduleError()
        for query in self.queries.values():
            merged.merge(query.then if then else query.now)
        return merged
