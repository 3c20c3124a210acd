"""Counts of a log's rows by outcome; the outcomes add up to the number of rows."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


class RowOutcome(Enum):
    """The outcome of a row; each row has exactly one."""

    STATEMENT = "a statement"
    JOINED = "the duration of the statement before it"
    ERROR = "the error of the statement before it"
    CONNECTION = "the beginning or the end of a session"
    PARSE = "parsing or binding, which belongs to the execution that follows"
    NO_STATEMENT = "something else that the server says"
    OTHER_PROCESS = "of a process that is no session of a client"
    DUPLICATE = "a row that was there before"
    LATE = "a row out of its session's order, which cannot be played in its place"
    OTHER_SESSION = "of another session with the same id, which cannot be played"
    ANOTHER_LANGUAGE = "in a language that is not English (lc_messages)"
    NOT_A_ROW = "no row of a log that is understood"

    __hash__ = object.__hash__
    """Each row is counted, and the usual hash of a member is a call in Python."""


@dataclass(slots=True)
class Counts:
    """Counted while rows are read."""

    rows: Counter[RowOutcome] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)
    """Statements by act."""
    unplayable: Counter[str] = field(default_factory=Counter)
    """Statements that cannot be played, by the words of `UNPLAYABLE`."""
    lost: int = 0
    """Rows that are missing, as gaps in the sessions' line numbers show."""
    open_at_begin: int = 0
    """Sessions that began before the log; their earlier settings are unknown."""
    not_rows: Counter[str] = field(default_factory=Counter)
    """Reasons why rows could not be parsed."""
    perhaps_cut: int = 0
    """Values that end in `...` and were played, because the session had longer ones that do not."""

    @property
    def total(self) -> int:
        return sum(self.rows.values())
