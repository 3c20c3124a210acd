"""Stores a server's answer to each statement in a few bytes, so that the answers of two servers can be compared."""

from array import array
from dataclasses import dataclass, field
from typing import Protocol

from playhead.queries.outcome import DIVERGENT, Played

_UNKNOWN = -1


class KeepsAnswers(Protocol):
    """Receives each statement that has its outcome."""

    def note(self, at: int, played: Played) -> None: ...


@dataclass(slots=True)
class Answers:
    """The answers to the statements of a tape, by statement number."""

    statements: int
    rows: "array[int]" = field(init=False)
    checksums: "array[int]" = field(init=False)
    sqlstates: dict[int, str] = field(default_factory=dict)
    """SQLSTATEs of failed statements."""
    divergent: set[int] = field(default_factory=set)
    """Statements with another result than on the source."""

    def __post_init__(self) -> None:
        self.rows = array("q", [_UNKNOWN]) * self.statements
        self.checksums = array("Q", [0]) * self.statements

    def note(self, at: int, played: Played) -> None:
        """Store an answer; one without a checksum was lost with its connection."""
        if played.checksum is None:
            return
        self.rows[at], self.checksums[at] = played.rows, played.checksum
        self.sqlstates.pop(at, None)
        self.divergent.discard(at)
        if played.outcome in DIVERGENT:
            self.divergent.add(at)
        if played.sqlstate is not None:
            self.sqlstates[at] = played.sqlstate

    def is_known(self, at: int) -> bool:
        return self.rows[at] != _UNKNOWN
