"""How a tape is played, and what earlier runs of the same replay have done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from playhead.pace import Pace
from playhead.queries.outcome import Outcome
from playhead.server import Link, MarkTexts
from playhead.source import TopicPartition


@dataclass(frozen=True, slots=True)
class PlayRules:
    """How a tape is played."""

    connect: Callable[[], Link]
    """Begins to open a connection."""
    pace: Pace
    marks: MarkTexts | None
    most_connections: int
    idle_close_ns: int | None = None
    """An idle connection outside of a transaction is closed after this time, and opened again when it is needed."""
    ignore_integrity_s: int = 0
    """For this many seconds of the log, errors of integrity are expected; -1 always."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier runs of the same replay have done."""

    reached: Mapping[TopicPartition, int] = field(default_factory=dict)
    """For each partition of the log, the offset before which the ledger has everything."""
    marked: Mapping[str, int] = field(default_factory=dict)
    """For each session, the last line that is marked."""
    in_doubt: frozenset[tuple[str, int]] = frozenset()
    """What was begun alone, and not marked as done."""
    divergent: Mapping[tuple[str, int], Outcome] = field(default_factory=dict)
    """What did not do what it did on the source."""
