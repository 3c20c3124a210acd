"""The tape: the statements of a log in a file, with a few numbers of each in memory for the player.

A log is read once. The role of a statement for transactions, its session and the server is decided here, so
that the player decides nothing while it plays. The texts stay in the file. The tape of a followed log grows, and
its beginning is forgotten.
"""

import marshal
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from playhead.queries.column import Column
from playhead.queries.flags import Flag, fails_to_commit, flags_of, has_text
from playhead.queries.gate import ROLE_NUMBER, ROLES, Numbering, Order, Role
from playhead.queries.overlaps import Overlaps
from playhead.queries.row_times import RowTimes
from playhead.queries.settings import Change, changes_of
from playhead.queries.sql_text import SqlText, read_sql
from playhead.queries.sql_tokens import without_values
from playhead.queries.tape_texts import FiledTexts, HeldTexts, Texts
from playhead.queries.transactions import UNDONE, UNDONE_LATE, Refuse, SessionOnTape
from playhead.querylog.sql import may_write
from playhead.querylog.statement import Act, Statement

FORCE: Final = "SELECT CAST('this failed on the source' AS pg_catalog.int4)"
"""A text that fails, to undo a success that the source did not have."""
CHECK: Final = "SET CONSTRAINTS ALL IMMEDIATE"
"""Goes before `FORCE`: the source may have failed at the deferred constraints."""
FORCED: Final = "22P02"
"""The SQLSTATE of `FORCE`."""
_ROLLBACK: Final = "ROLLBACK"
_AT_ONCE: Final = 64
"""Statements that are read before they are written: the processor's caches then hold one of the two works at a time."""
_ACTS: Final = tuple(Act)
_ACT_NUMBER: Final = {act: number for number, act in enumerate(_ACTS)}
_ESCAPES: Final = re.compile(
    r"standard_conforming_strings'?\s*(?:=|,|\bto\b)\s*'?(\w+)", re.IGNORECASE
)
_STRINGS: Final = "standard_conforming_strings"
_OFF: Final = ("off", "of", "false", "no", "0", "f", "n")


class Step(NamedTuple):
    """One statement, as the player needs it."""

    session: int
    line: int
    """The line of its row, and the number of its part of the text."""
    place: int
    act: Act
    sql: str
    parameters: tuple[str | None, ...] | None
    name: str
    expected_error: str | None
    duration_us: int | None
    flags: int  # bits of `Flag`
    commit_at: int
    """Position of the mark in the text, before its last COMMIT; -1 without a mark."""
    parts: int
    """Number of statements in the text."""
    query: int
    """The number of its query (the text without values)."""
    changes: tuple[Change, ...]
    """The changes in its session."""


@dataclass(slots=True)
class Tape:
    """The statements by number, in the order in which the log shows their ends."""

    numbers: Numbering
    texts: Texts
    sessions: dict[int, str] = field(default_factory=dict)
    session_count: int = 0
    """Number of statements, including forgotten ones."""
    places: Column = field(default_factory=Column)
    lines: Column = field(default_factory=Column)
    due_us: Column = field(default_factory=Column)
    session_of: Column = field(default_factory=Column)
    roles: Column = field(default_factory=lambda: Column("B"))
    reasons: Column = field(default_factory=lambda: Column("B"))
    """For each statement, why it is not played, as a number of `words`; 0 if it is played."""
    words: list[str] = field(default_factory=lambda: [""])
    skipped: Counter[str] = field(default_factory=Counter)
    """Number of statements that are not played, by reason."""
    stand_ins: Counter[str] = field(default_factory=Counter)
    """Statements for which another text is played."""
    queries: list[str] = field(default_factory=list)
    examples: list[bytes] = field(default_factory=list)
    """For each query, its first statement."""
    users: set[str] = field(default_factory=set)
    databases: set[str] = field(default_factory=set)
    to_play: int = 0
    """How many statements with a text are played."""
    timed: int = 0
    """Number of statements with a duration."""
    shortest_us: int = 1 << 62
    """The shortest duration."""
    uncertain_writes: int = 0
    """Writes outside of transactions whose end the log does not show: their order is not known."""
    overlaps: Overlaps = field(default_factory=Overlaps)
    most_sessions: int = 0
    """The largest number of sessions that were open at once."""
    is_uncertain: set[int] = field(default_factory=set)
    """The numbers of the uncertain writes."""

    def __len__(self) -> int:
        return len(self.places)

    def step(self, number: int) -> Step:
        """Read a statement."""
        return step_of(self.texts[number])

    def reason(self, number: int) -> str:
        """Return why a statement is not played; empty if it is."""
        return self.words[self.reasons[number]]

    def role(self, number: int) -> Role:
        return ROLES[self.roles[number]]

    def forget(self, before: int) -> None:
        """Forget the statements before this one."""
        self.numbers.forget(before)
        self.texts.forget(before)
        for column in (self.places, self.lines, self.due_us, self.session_of):
            column.forget(before)
        self.roles.forget(before)
        self.reasons.forget(before)
        self.is_uncertain = {at for at in self.is_uncertain if at >= before}


def step_of(text: bytes) -> Step:
    """Read a statement of a tape."""
    stored = marshal.loads(text)  # noqa: S302  Written by this process into its own file.
    session, line, place, act, sql, parameters, name, error, duration, flags, *rest = stored
    *rest, changes = rest
    meant = (error, duration, flags, *rest, tuple(Change(*each) for each in changes))
    return Step(session, line, place, _ACTS[act], sql, parameters, name, *meant)


class TapeWriter:
    """Writes a tape, statement by statement, in the order in which the log shows their ends."""

    def __init__(
        self,
        refuse: Refuse,
        order: Order,
        *,
        writes: Callable[[str], bool] = may_write,
        escapes: bool = False,
        is_growing: bool = False,
    ) -> None:
        due_us, texts = Column(), HeldTexts() if is_growing else FiledTexts()
        self.tape = Tape(Numbering(order, due_us), texts, due_us=due_us)
        self._refuse, self._writes, self._escapes = refuse, writes, escapes
        self._is_growing = is_growing
        self._sessions: dict[str, SessionOnTape] = {}
        self._word_numbers: dict[str, int] = {"": 0}
        self._query_numbers: dict[str, int] = {}
        self._open: set[int] = set()
        self._times = RowTimes()

    def write(self, statements: Iterable[Statement]) -> Tape:
        """Write all statements of a complete log."""
        waiting = iter(statements)
        while some := list(islice(waiting, _AT_ONCE)):
            self.add(some)
        self.tape.numbers.seal()
        if isinstance(self.tape.texts, FiledTexts):
            self.tape.texts.close()
        return self.tape

    def add(self, statements: Iterable[Statement], *, read_to: int | None = None) -> None:
        """Write more statements; one with an unknown end had not ended at the place `read_to`."""
        for statement in statements:
            session = self._session_of(statement)
            sql = read_sql(statement.sql, escapes=session.escapes)
            for piece in session.pieces(statement, sql):
                self._add(piece, session, read_to)
            if self._is_growing and statement.act is Act.DISCONNECT:
                del self._sessions[statement.session]
                self.tape.numbers.end_session(session.number)

    def _add(self, statement: Statement, session: SessionOnTape, read_to: int | None) -> None:
        tape = self.tape
        sql = read_sql(statement.sql, escapes=session.escapes)
        reason = self._undo_unsynced(statement, session)
        reason = reason or session.reason(statement, sql, self._refuse)
        if reason:
            tape.skipped[reason] += 1
        query = self._query(statement, escapes=session.escapes)
        stands_in = self._stand_in(statement, sql, session, reason)
        if stands_in:
            tape.stand_ins[reason] += 1
            text = _ROLLBACK if stands_in & Flag.WITHDRAWS else FORCE
            statement = statement._replace(act=Act.QUERY, sql=text, parameters=None, name="")
            sql, reason = read_sql(text), ""
        elif not reason and session.is_open and fails_to_commit(statement, sql):
            statement = statement._replace(act=Act.QUERY, sql=_ROLLBACK, parameters=None, name="")
            sql, stands_in = read_sql(_ROLLBACK), Flag.UNDOES
        self._note_content(statement, reason)
        writes = self._writes(statement.sql) if has_text(statement) else False
        was_open = session.is_open
        role = self._role(statement, sql, session, reason, writes=writes)
        self._number(statement, sql, session, role, read_to)
        self._note_overlap(statement, sql, session, role, writes=writes)
        due = session.last_due = max(session.last_due, statement.due_us)
        session.note_unsynced(statement, len(tape))
        tape.places.append(statement.place)
        tape.lines.append(statement.line)
        tape.due_us.append(due)
        tape.session_of.append(session.number)
        tape.roles.append(ROLE_NUMBER[role])
        tape.reasons.append(self._word(reason))
        flags, commit_at = flags_of(statement, sql, writes=writes, was_open=was_open)
        changes = changes_of(sql, statement.parameters) if has_text(statement) else ()
        stored = marshal.dumps(
            (
                session.number,
                statement.line,
                statement.place,
                _ACT_NUMBER[statement.act],
                statement.sql,
                statement.parameters,
                statement.name,
                statement.expected_error,
                statement.duration_us,
                flags | stands_in,
                commit_at,
                len(sql.parts),
                query,
                changes and tuple(map(tuple, changes)),
            )
        )
        tape.texts.add(stored)
        if query == len(tape.examples):
            tape.examples.append(stored)
        if statement.expected_error is None and not reason:
            self._note_escapes(changes, session)

    def _note_content(self, statement: Statement, reason: str) -> None:
        tape = self.tape
        if has_text(statement) and statement.duration_us is not None:
            tape.timed += 1
            tape.shortest_us = min(tape.shortest_us, statement.duration_us)
        if not reason:
            tape.users.add(statement.user)
            tape.databases.add(statement.database)
            tape.to_play += has_text(statement)

    def _session_of(self, statement: Statement) -> SessionOnTape:
        session = self._sessions.get(statement.session)
        if session is None:
            session = SessionOnTape(self.tape.session_count, self._escapes)
            self._sessions[statement.session] = session
            self.tape.sessions[session.number] = statement.session
            self.tape.session_count += 1
        if statement.act is Act.DISCONNECT:
            self._open.discard(session.number)
        else:
            self._open.add(session.number)
            self.tape.most_sessions = max(self.tape.most_sessions, len(self._open))
        return session

    def _undo_unsynced(self, statement: Statement, session: SessionOnTape) -> str:
        """Do not play what an error before the Sync has undone on the source; return why."""
        undone = session.take_undone(statement)
        if any(map(self.tape.numbers.is_sealed, undone)):
            return UNDONE_LATE
        self._leave_out(undone, UNDONE)
        # An error at the Sync has no text.
        is_at_sync = statement.expected_error is not None and statement.act is Act.EXECUTE
        return UNDONE if undone or (is_at_sync and not statement.sql) else ""

    def _leave_out(self, numbers: list[int], reason: str) -> None:
        """Do not play statements that are on the tape already."""
        for each in numbers:
            if not self.tape.reasons[each]:
                self.tape.to_play -= 1
                self.tape.skipped[reason] += 1
            self.tape.reasons[each] = self._word(reason)

    def _stand_in(
        self, statement: Statement, sql: SqlText, session: SessionOnTape, reason: str
    ) -> int:
        """Say what is played instead of a statement of a transaction, if it cannot be played itself."""
        if not reason or not session.is_open or session.left_out or not has_text(statement):
            return 0
        if statement.expected_error is not None and not sql.controls:
            return Flag.STANDS_IN  # It made its transaction fail on the source.
        closes = any(part.closes for part in sql.parts)
        return Flag.STANDS_IN | Flag.WITHDRAWS if closes and self._is_growing else 0

    def _role(
        self,
        statement: Statement,
        sql: SqlText,
        session: SessionOnTape,
        reason: str,
        *,
        writes: bool,
    ) -> Role:
        was_open, is_played = session.is_open, not session.left_out
        if was_open and is_played and reason and any(part.closes for part in sql.parts):
            # A transaction is played as a whole or not at all.
            self._leave_out(session.played, reason)
        session.go_on(statement, sql, reason)
        if statement.act is Act.DISCONNECT:
            return Role.END if was_open and is_played else Role.FREE
        if reason or statement.act in (Act.CONNECT, Act.CANCEL):
            return Role.FREE
        if session.is_open:
            session.played.append(len(self.tape))
        if was_open:
            has_ended = not session.is_open or any(part.closes for part in sql.parts)
            return Role.END if has_ended else Role.BODY
        if session.is_open:
            return Role.BODY
        return Role.WRITE if writes else Role.READ

    def _note_escapes(self, changes: tuple[Change, ...], session: SessionOnTape) -> None:
        """Note how the session reads backslashes from now on."""
        for change in changes:
            found = _ESCAPES.search(change.text)
            if change.kind == "discard" or change.text.upper().startswith("RESET"):
                is_all = change.kind == "discard" or change.name == "all"
                if is_all or change.name == _STRINGS:
                    session.escapes = self._escapes
            elif change.kind == "set" and found is not None:
                session.escapes = found[1].lower() in _OFF

    def _number(
        self,
        statement: Statement,
        sql: SqlText,
        session: SessionOnTape,
        role: Role,
        read_to: int | None,
    ) -> None:
        before = -1 if session.has_undone else self._times.row_before(statement)
        sees = sql.only is None or not sql.only.opens
        done, ready = statement.done_place, None
        if role is Role.FREE:
            done = statement.place
        elif done is None:
            done = ready = read_to
        if role is Role.WRITE:
            is_exact = (
                statement.duration_us is not None
                or statement.expected_error is not None
                or statement.done_place == statement.place
            )
            if not is_exact:
                self.tape.uncertain_writes += 1
                self.tape.is_uncertain.add(len(self.tape))
            if ready is None and not is_exact:
                ready = before = statement.place
        numbers = self.tape.numbers
        if role is not Role.FREE and any(part.alters for part in sql.parts):
            numbers.note_change()
        numbers.add(session.number, role, done, ready=ready, before=before, sees=sees)

    def _note_overlap(
        self,
        statement: Statement,
        sql: SqlText,
        session: SessionOnTape,
        role: Role,
        *,
        writes: bool,
    ) -> None:
        overlaps, began = self.tape.overlaps, statement.due_us
        ended = began + (statement.duration_us or 0)
        if role is Role.WRITE:
            overlaps.write(session.number, began, ended)
        elif writes and role in (Role.BODY, Role.END):
            overlaps.write_inside(session.number, began)
        if role is Role.END or not session.is_open:  # Also one whose end is not played.
            is_kept = role is Role.END and any(part.keeps_changes for part in sql.parts)
            overlaps.end(session.number, ended, is_kept=is_kept)

    def _word(self, word: str) -> int:
        number = self._word_numbers.get(word)
        if number is None:
            number = self._word_numbers[word] = len(self._word_numbers)
            self.tape.words.append(word)
        return number

    def _query(self, statement: Statement, *, escapes: bool) -> int:
        text = statement.act.value
        if has_text(statement):
            text = without_values(statement.sql, escapes=escapes)
        number = self._query_numbers.setdefault(text, len(self._query_numbers))
        if number == len(self.tape.queries):
            self.tape.queries.append(text)
        return number
