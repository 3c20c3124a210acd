"""Groups the statements of a session into the transactions of the source, and decides which are played."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from playhead.queries.sql_text import Part, SqlText
from playhead.querylog.sql import may_write, understand
from playhead.querylog.statement import Act, Statement

CUT: Final = "cut-transaction"
SEVERAL: Final = "several-transactions"
TOO_MANY: Final = "too-many-transactions"
FAILED: Final = "filter-failed"
PERHAPS_KEPT: Final = "perhaps-committed"
UNDONE: Final = "filter-undone"
UNDONE_LATE: Final = "undone-late"
_OF_STATEMENTS: Final = frozenset(("filter-select", "filter-table", "filter-query"))
"""Filters that leave single statements of a transaction out."""
SYNTAX_ERROR: Final = "42601"
_PIECE_BITS: Final = 16
_LONGEST_BEGIN: Final = 1_000


class Refuse(Protocol):
    """A function that returns why a statement is not played."""

    def __call__(self, statement: Statement, sql: SqlText, /, *, is_inside: bool = False) -> str:
        """Return a word; empty if it is played. `is_inside`: the statement is in a transaction that is played."""
        ...


def row_line(line: int) -> int:
    """Return the line of the log's row from a line of the tape, which also contains the number of the part."""
    return line >> _PIECE_BITS


@dataclass(slots=True)
class SessionOnTape:
    """The state of a session while its statements are written to the tape."""

    number: int
    escapes: bool
    """Whether standard_conforming_strings is off."""
    is_open: bool = False
    """Whether the source had a transaction open."""
    left_out: str = ""
    """Why the open transaction is not played; empty if it is."""
    played: list[int] = field(default_factory=list)
    """The statements of the open transaction that are played."""
    begin: str = "BEGIN"
    """The text that begins a transaction like the open one."""
    has_undone: bool = False
    """Whether its last transaction has released locks before its end, by an error or by ROLLBACK TO."""
    last_due: int = 0
    unsynced: list[int] = field(default_factory=list)
    """The last statements that were sent before one Sync, outside of a transaction: one implicit transaction."""
    _unsynced_in: str = ""
    """Their virtual transaction id."""

    def pieces(self, statement: Statement, sql: SqlText) -> Iterator[Statement]:
        """Split a text after each end of a transaction, because a mark can prove one transaction only.

        COMMIT AND CHAIN becomes a COMMIT and a BEGIN. A failed text is not split, because the log does not show
        where it failed.
        """
        texts = [sql.text]
        if statement.expected_error is None and _has_several(sql) and not _has_too_many(sql):
            texts = [*self._texts(sql)]
        last = len(texts) - 1
        for number, text in enumerate(texts):
            piece = statement._replace(line=statement.line << _PIECE_BITS | number)
            if last:
                duration = piece.duration_us if number == last else None
                piece = piece._replace(sql=text, name="", duration_us=duration)
            if number:
                piece = piece._replace(act=Act.QUERY, parameters=None, in_transaction=False)
            yield piece

    def _texts(self, sql: SqlText) -> Iterator[str]:
        start = None
        for part in sql.parts:
            start = part.start if start is None else start
            self._note_begin(sql, part)
            if part.chains:
                yield f"{sql.text[start : part.start]}{part.words[0]}"
                yield self.begin
            elif part.closes:
                yield sql.text[start : part.end]
            start = None if part.closes else start
        if start is not None:
            yield sql.text[start:]

    def _note_begin(self, sql: SqlText, part: Part) -> None:
        text = sql.text[part.start : part.end].strip()
        if len(text) > _LONGEST_BEGIN:  # Each COMMIT AND CHAIN of a text repeats it.
            return
        if part.opens:
            self.begin = text
        elif part.begins_with("SET", "TRANSACTION") and part.words[2:3] != ("SNAPSHOT",):
            begin = f"{self.begin}; {text}"
            self.begin = begin if len(begin) <= _LONGEST_BEGIN else f"BEGIN; {text}"

    def reason(self, statement: Statement, sql: SqlText, refuse: Refuse) -> str:
        """Return why a statement is not played: a word; empty if it is."""
        if statement.act in (Act.CONNECT, Act.DISCONNECT, Act.CANCEL):
            return refuse(statement, sql)
        if self.is_open and self.left_out:
            return self.left_out
        if statement.act in (Act.QUERY, Act.EXECUTE):
            if self._is_cut(statement, sql):
                return CUT
            error = statement.expected_error
            if _has_too_many(sql):
                return TOO_MANY
            if error is not None and _has_several(sql) and not is_unread(statement):
                return SEVERAL
        reason = refuse(statement, sql, is_inside=self.is_open)
        if not reason and _stays_if_it_succeeds(statement, sql, is_inside=self.is_open):
            return PERHAPS_KEPT if not self.is_open and sql.may_commit_inside else FAILED
        # Without it, its transaction would be committed here.
        fails = self.is_open and statement.expected_error is not None
        return "" if fails and reason in _OF_STATEMENTS else reason

    def take_undone(self, statement: Statement) -> list[int]:
        """Return the earlier statements before the Sync that an error undoes; they are forgotten."""
        if self.is_open or statement.expected_error is None or not self._shares_sync(statement):
            return []
        undone, self.unsynced = self.unsynced, []
        return undone

    def note_unsynced(self, statement: Statement, number: int) -> None:
        """Note a statement that may share its Sync with the next ones."""
        if not self._shares_sync(statement):
            self.unsynced, self._unsynced_in = [], statement.transaction
        if statement.act is Act.EXECUTE and statement.transaction and not self.is_open:
            self.unsynced.append(number)

    def _shares_sync(self, statement: Statement) -> bool:
        return statement.transaction == self._unsynced_in != ""

    def _is_cut(self, statement: Statement, sql: SqlText) -> bool:
        """Return whether its transaction began before the log or the span."""
        first = next((part for part in sql.parts if part.opens or part.closes), None)
        is_new = first is not None and first.opens
        return statement.in_transaction and not self.is_open and not is_new

    def go_on(self, statement: Statement, sql: SqlText, reason: str) -> None:
        """Note whether a transaction is open after a statement."""
        if statement.act is Act.DISCONNECT:
            self.is_open = False
        elif statement.act in (Act.QUERY, Act.EXECUTE):
            for part in sql.parts:
                self._note_begin(sql, part)
            was_open, self.is_open = self.is_open, self._is_open_after(statement, sql)
            if self.is_open and not was_open:
                self.left_out = reason
            if not was_open:
                self.has_undone = False
            has_failed = statement.expected_error is not None
            self.has_undone |= has_failed or any(part.undoes for part in sql.parts)
        if not self.is_open:
            self.left_out = ""
            self.played.clear()

    def _is_open_after(self, statement: Statement, sql: SqlText) -> bool:
        was_open = self.is_open or self._is_cut(statement, sql)
        if statement.expected_error is None:
            return sql.leaves_open(was_open)
        if is_unread(statement):
            return was_open
        if not was_open:
            return any(part.opens for part in sql.parts)
        return sql.leaves_open(was_open) if sql.only else True


def _has_several(sql: SqlText) -> bool:
    return any(part.closes and (part.chains or part is not sql.parts[-1]) for part in sql.parts)


def _has_too_many(sql: SqlText) -> bool:
    """Whether its pieces could have more numbers than there are; a chained end makes two."""
    return sum(1 + part.chains for part in sql.parts if part.closes) >= 1 << _PIECE_BITS


def _stays_if_it_succeeds(statement: Statement, sql: SqlText, *, is_inside: bool) -> bool:
    """Return whether it failed on the source, and could not be undone if it succeeded on the target."""
    if statement.expected_error is None or is_unread(statement):
        return False
    is_kept = sql.controls or (sql.runs_alone and not is_inside)
    return is_kept and may_write(statement.sql)


def is_unread(statement: Statement) -> bool:
    """Return whether the server ran nothing of it, because it could not parse it."""
    is_syntax = statement.expected_error == SYNTAX_ERROR
    return is_syntax and not understand(statement.sql).is_understood
