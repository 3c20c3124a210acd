"""The rules for playing a tape, and the progress of earlier runs of the same replay."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from playhead.pace import Pace
from playhead.queries.outcome import Outcome
from playhead.server import Link, MarkTexts
from playhead.source import TopicPartition


@dataclass(frozen=True, slots=True)
class PlayRules:
    """The rules for playing a tape."""

    connect: Callable[[], Link]
    """Function that begins to open a connection."""
    pace: Pace
    marks: MarkTexts | None
    most_connections: int
    idle_close_ns: int | None = None
    """An idle connection outside of a transaction is closed after this time, and reopened when needed."""
    ignore_integrity_s: int = 0
    """Errors of integrity are expected in the first N seconds of the log; -1 in all of it."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The progress of earlier runs of the same replay."""

    reached: Mapping[TopicPartition, int] = field(default_factory=dict)
    """For each partition of the log, the offset up to which the ledger is complete."""
    marked: Mapping[str, int] = field(default_factory=dict)
    """For each session, the last line with a mark."""
    in_doubt: frozenset[tuple[str, int]] = frozenset()
    """Statements that run alone, were started, and have no mark of their end."""
    divergent: Mapping[tuple[str, int], Outcome] = field(default_factory=dict)
    """Statements with another result than on the source."""
