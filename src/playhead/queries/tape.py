"""The tape: the statements of a log in a file, with what the player needs of each in memory.

A log is read once. What a statement means to transactions, to its session and to the server is decided
here, so that the player decides nothing while it plays. In memory there are a few numbers for each
statement; its text stays in the file.
"""

import marshal
import mmap
import re
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import Final, NamedTuple

from playhead.queries.gate import Numbering, Numbers, Order, Role
from playhead.queries.settings import Change, changes_of
from playhead.queries.sql_text import SqlText, read_sql
from playhead.queries.sql_tokens import tokens_of
from playhead.queries.transactions import SYNTAX_ERROR, Refuse, SessionOnTape
from playhead.querylog.sql import may_write
from playhead.querylog.statement import Act, Statement

FORCE: Final = "SELECT CAST('this failed on the source' AS pg_catalog.int4)"
"""What undoes a success that the source did not have."""
FORCED: Final = "22P02"
"""The SQLSTATE of `FORCE`."""
_ACTS: Final = tuple(Act)
_ACT_NUMBER: Final = {act: number for number, act in enumerate(_ACTS)}
_STICKY: Final = re.compile(
    r"\b(?:create|into)\s+(?:(?:local|global)\s+)?temp(?:orary)?\b(?!.*\bon\s+commit\s+drop\b)|\bpg_temp\b"
    r"|\bpg_(?:try_)?advisory_lock|\bwith\s+hold\b",
    re.IGNORECASE | re.DOTALL,
)
_UNLOCKS: Final = re.compile(r"\bdiscard\b|unlock_all", re.IGNORECASE)
_ESCAPES: Final = re.compile(
    r"standard_conforming_strings'?\s*(?:=|,|\bto\b)\s*'?(\w+)", re.IGNORECASE
)
_OFF: Final = ("off", "of", "false", "no", "0", "f", "n")


class Flag(IntFlag):
    """What a statement means to its session and to the server."""

    WRITES = 1
    """It may change something."""
    ALONE = 2
    """It cannot share a transaction with a mark."""
    CONTROLS = 4
    """It begins or ends a transaction."""
    STANDS_IN = 8
    """It failed on the source and cannot be played: what is sent instead fails, so that its transaction does."""
    STICKY = 16
    """It leaves something in its session that a new connection would not have."""
    UNLOCKS = 32
    """It may release the advisory locks of its session."""
    FORCES = 64
    """If it succeeds although it failed on the source, it is undone."""


class Step(NamedTuple):
    """One statement, as the player needs it."""

    session: int
    line: int
    """The line of its row, and the number of the piece."""
    place: int
    act: Act
    sql: str
    parameters: tuple[str | None, ...] | None
    name: str
    expected_error: str | None
    duration_us: int | None
    flags: Flag
    commit_at: int
    """Where the mark goes into the text: before its last COMMIT; -1 for nowhere."""
    parts: int
    """Of how many statements the text consists."""
    query: int
    """The number of its query, which is the text without its values."""
    changes: tuple[Change, ...]
    """What it changes in its session."""


@dataclass(slots=True)
class Tape:
    """The statements by their number, in the order of their places in the log."""

    sessions: list[str] = field(default_factory=list)
    places: "array[int]" = field(default_factory=lambda: array("q"))
    lines: "array[int]" = field(default_factory=lambda: array("q"))
    due_us: "array[int]" = field(default_factory=lambda: array("q"))
    session_of: "array[int]" = field(default_factory=lambda: array("l"))
    roles: bytearray = field(default_factory=bytearray)
    reasons: bytearray = field(default_factory=bytearray)
    """For each statement, why it is not played, as a number of `words`; 0 if it is."""
    words: list[str] = field(default_factory=lambda: [""])
    stand_ins: Counter[str] = field(default_factory=Counter)
    """How many statements are not played, and something that fails is instead, by reason."""
    queries: list[str] = field(default_factory=list)
    numbers: Numbers = field(default_factory=lambda: Numbers((), (), 0))
    users: set[str] = field(default_factory=set)
    databases: set[str] = field(default_factory=set)
    uncertain_writes: set[int] = field(default_factory=set)
    """Writes outside of transactions whose end the log does not show: their order is not known."""
    overlapping_writes: int = 0
    """Writes outside of transactions that ran at the same time as others."""
    most_sessions: int = 0
    """The largest number of sessions that were open at once."""
    _offsets: "array[int]" = field(default_factory=lambda: array("q", [0]))
    _bytes: "mmap.mmap | bytes" = b""

    def __len__(self) -> int:
        return len(self.places)

    def step(self, number: int) -> Step:
        """Read a statement from the file."""
        # Our own file, which has no name.
        stored = marshal.loads(  # noqa: S302
            self._bytes[self._offsets[number] : self._offsets[number + 1]]
        )
        session, line, place, act, sql, parameters, name, error, duration, flags, *rest = stored
        *rest, changes = rest
        meant = (error, duration, Flag(flags), *rest, tuple(Change(*each) for each in changes))
        return Step(session, line, place, _ACTS[act], sql, parameters, name, *meant)

    def reason(self, number: int) -> str:
        """Return why a statement is not played; empty if it is."""
        return self.words[self.reasons[number]]

    def role(self, number: int) -> Role:
        return _ROLES[self.roles[number]]

    def is_uncertain(self, number: int) -> bool:
        return number in self.uncertain_writes

    def by_due(self) -> Iterator[int]:
        """The numbers in the order in which the statements are due; a session's never change their order."""
        return iter(sorted(range(len(self)), key=self.due_us.__getitem__))


_ROLES: Final = tuple(Role)
_ROLE_NUMBER: Final = {role: number for number, role in enumerate(_ROLES)}


class TapeWriter:
    """Writes a tape, statement by statement, in the order of their places."""

    def __init__(
        self,
        refuse: Refuse,
        *,
        writes: Callable[[str], bool] = may_write,
        escapes: bool = False,
    ) -> None:
        self._tape = Tape()
        self._refuse, self._writes, self._escapes = refuse, writes, escapes
        self._numbering = Numbering()
        self._sessions: dict[str, SessionOnTape] = {}
        self._word_numbers: dict[str, int] = {"": 0}
        self._query_numbers: dict[str, int] = {}
        self._open: set[int] = set()
        self._last_write_end_us = 0

    def write(self, statements: Iterable[Statement], order: Order) -> Tape:
        tape = self._tape
        # A file with a name would stay behind a run that is killed, with all values of the log.
        with tempfile.TemporaryFile() as out:
            for statement in statements:
                session = self._session_of(statement)
                sql = read_sql(statement.sql, escapes=session.escapes)
                for piece in session.pieces(statement, sql):
                    out.write(self._stored(piece, session))
            out.flush()
            if len(tape):
                tape._bytes = mmap.mmap(out.fileno(), 0, access=mmap.ACCESS_READ)
        tape.numbers = self._numbering.finish(order)
        tape.queries = list(self._query_numbers)
        return tape

    def _stored(self, statement: Statement, session: SessionOnTape) -> bytes:
        tape = self._tape
        sql = read_sql(statement.sql, escapes=session.escapes)
        reason = session.reason(statement, sql, self._refuse)
        query = self._query(statement, escapes=session.escapes)
        stands_in = self._stands_in(statement, sql, session, reason)
        if stands_in:
            tape.stand_ins[reason] += 1
            statement = replace(statement, act=Act.QUERY, sql=FORCE, parameters=None, name="")
            sql, reason = read_sql(FORCE), ""
        if not reason:
            tape.users.add(statement.user)
            tape.databases.add(statement.database)
        writes = self._writes(statement.sql) if _has_text(statement) else False
        role = self._role(statement, sql, session, reason, writes=writes)
        self._number(statement, session.number, role)
        due = session.last_due = max(session.last_due, statement.due_us)
        tape.places.append(statement.place)
        tape.lines.append(statement.line)
        tape.due_us.append(due)
        tape.session_of.append(session.number)
        tape.roles.append(_ROLE_NUMBER[role])
        tape.reasons.append(self._word(reason))
        flags, commit_at = _flags(statement, sql, writes=writes)
        changes = changes_of(sql, statement.parameters) if _has_text(statement) else ()
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
                int(flags | (Flag.STANDS_IN if stands_in else 0)),
                commit_at,
                len(sql.parts),
                query,
                tuple(tuple(each) for each in changes),
            )
        )
        tape._offsets.append(tape._offsets[-1] + len(stored))
        self._note_escapes(statement, session)
        return stored

    def _session_of(self, statement: Statement) -> SessionOnTape:
        session = self._sessions.get(statement.session)
        if session is None:
            session = SessionOnTape(len(self._sessions), self._escapes)
            self._sessions[statement.session] = session
            self._tape.sessions.append(statement.session)
        if statement.act is Act.DISCONNECT:
            self._open.discard(session.number)
        else:
            self._open.add(session.number)
            self._tape.most_sessions = max(self._tape.most_sessions, len(self._open))
        return session

    @staticmethod
    def _stands_in(statement: Statement, sql: SqlText, session: SessionOnTape, reason: str) -> bool:
        """Whether its transaction failed on the source because of it, and is played."""
        is_played = session.is_open and not session.left_out
        has_failed = statement.expected_error is not None and _has_text(statement)
        return bool(reason) and is_played and has_failed and not sql.controls

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
            for each in session.played:  # It is played as a whole or not at all.
                self._tape.reasons[each] = self._word(reason)
        session.go_on(statement, sql, reason)
        if statement.act is Act.DISCONNECT:
            return Role.END if was_open and is_played else Role.FREE
        if reason or statement.act in (Act.CONNECT, Act.CANCEL):
            return Role.FREE
        if session.is_open:
            session.played.append(len(self._tape))
        if was_open:
            has_ended = not session.is_open or any(part.closes for part in sql.parts)
            return Role.END if has_ended else Role.BODY
        if session.is_open:
            return Role.BODY
        return Role.WRITE if writes else Role.READ

    @staticmethod
    def _note_escapes(statement: Statement, session: SessionOnTape) -> None:
        found = _ESCAPES.search(statement.sql) if statement.expected_error is None else None
        if found is not None:
            session.escapes = found[1].lower() in _OFF

    def _number(self, statement: Statement, session: int, role: Role) -> None:
        done = statement.done_place
        if role is Role.WRITE:
            is_exact = (
                statement.duration_us is not None
                or statement.expected_error is not None
                or done == statement.place
            )
            self._count_write(statement, is_exact=is_exact)
            self._numbering.add(session, role, done, ready=None if is_exact else statement.place)
            return
        self._numbering.add(session, role, done)

    def _count_write(self, statement: Statement, *, is_exact: bool) -> None:
        if not is_exact:
            self._tape.uncertain_writes.add(len(self._tape))
        if statement.due_us < self._last_write_end_us:
            self._tape.overlapping_writes += 1
        end = statement.due_us + (statement.duration_us or 0)
        self._last_write_end_us = max(self._last_write_end_us, end)

    def _word(self, word: str) -> int:
        number = self._word_numbers.get(word)
        if number is None:
            number = self._word_numbers[word] = len(self._word_numbers)
            self._tape.words.append(word)
        return number

    def _query(self, statement: Statement, *, escapes: bool) -> int:
        text = statement.act.value
        if _has_text(statement):
            text = without_values(statement.sql, escapes=escapes)
        return self._query_numbers.setdefault(text, len(self._query_numbers))


def _has_text(statement: Statement) -> bool:
    return statement.act in (Act.QUERY, Act.EXECUTE)


def _flags(statement: Statement, sql: SqlText, *, writes: bool) -> tuple[Flag, int]:
    """Return the flags of a statement, and where a mark goes into its text."""
    if not _has_text(statement):
        return Flag(0), -1
    commits = [part.start for part in sql.parts if part.keeps_changes]
    is_alone = sql.runs_alone
    error = statement.expected_error
    forces = error not in (None, SYNTAX_ERROR) and not is_alone and not sql.controls
    flags = (
        (Flag.WRITES if writes else Flag(0))
        | (Flag.ALONE if is_alone else Flag(0))
        | (Flag.CONTROLS if sql.controls else Flag(0))
        | (Flag.STICKY if _STICKY.search(sql.text) else Flag(0))
        | (Flag.UNLOCKS if _UNLOCKS.search(sql.text) else Flag(0))
        | (Flag.FORCES if forces else Flag(0))
    )
    return flags, commits[0] if len(commits) == 1 else -1


def without_values(text: str, *, escapes: bool = False) -> str:
    """Return a text without its values and comments, so that calls of one query have one text."""
    pieces, end = [], 0
    for token in tokens_of(text, escapes=escapes):
        is_value = token["text"] or token["number"]
        pieces += [" " if token.start() > end else "", "?" if is_value else token[0]]
        end = token.end()
    return "".join(pieces).strip()
