"""Converts the rows of a log, in order, into the statements of its sessions."""

from dataclasses import dataclass, field
from typing import Final

from playhead.querylog import sql as sql_text
from playhead.querylog.counts import Counts, RowOutcome
from playhead.querylog.given import (
    AMBIGUOUS,
    Given,
    execution,
    failed_text,
    given_by,
    is_ambiguous,
)
from playhead.querylog.lines import Beginnings, Lines, Remembered
from playhead.querylog.logged import (
    CANCELED,
    Kind,
    Logged,
    ends_server,
    logged_in,
    sqlstate_of,
    starts_server,
)
from playhead.querylog.rows import SEVERITIES, LogRow
from playhead.querylog.sessions import Bound, Draft, Session
from playhead.querylog.statement import NOT_ENDED, Act, Statement

_FAILURES: Final = frozenset(("ERROR", "FATAL", "PANIC"))
_CLIENTS: Final = (None, "client backend", "not initialized")


@dataclass(slots=True)
class StatementReader:
    """Reads rows one after the other, and keeps the state of open sessions only.

    Statements are returned in the order of their session, when their end is known: a statement whose row was written
    at its beginning is returned with the next row of its session.
    """

    counts: Counts = field(default_factory=Counts)
    _durations: int = 0
    _lacking: int = 0
    """Number of ended statements, with and without a duration."""
    _sessions: dict[str, Session] = field(default_factory=dict)
    _processes: dict[str, str] = field(default_factory=dict)
    """The session of each process id; a reused process id means that the earlier session has ended."""
    _remembered: Remembered = field(default_factory=Remembered)
    _beginnings: Beginnings = field(default_factory=Beginnings)
    _out: list[Statement] = field(default_factory=list)

    def read(self, row: LogRow) -> list[Statement]:
        """Read the next row; return the statements whose end it shows."""
        outcome = self._taken(row)
        self.counts.rows[outcome] += 1
        if outcome is RowOutcome.OTHER_PROCESS:
            # Before a server shuts down its sessions have ended; if they have not when it starts, it has crashed.
            has_crashed = starts_server(row)
            for key, session in (
                [*self._sessions.items()] if has_crashed or ends_server(row) else ()
            ):
                session.ends_unseen = has_crashed
                self._ended(key, session, None)
        return self._given()

    def not_a_row(self, reason: str) -> None:
        """Count a row that could not be parsed."""
        self.counts.rows[RowOutcome.NOT_A_ROW] += 1
        self.counts.not_rows[reason] += 1

    def end(self) -> list[Statement]:
        """End the log: return the statements whose end it does not show."""
        for session in self._sessions.values():
            self._settle(session, None)
        return self._given()

    def release(self, before_us: int) -> list[Statement]:
        """Return statements that began before this instant, although their end is not known yet."""
        for session in self._sessions.values():
            draft = session.draft
            if draft is not None and draft.due_us < before_us:
                if draft.act is not Act.CONNECT:
                    session.released = draft.sql
                self._settle(session, None)
        return self._given()

    def first_held(self) -> int | None:
        """Return the place of the first statement that was not returned yet; None if there is none."""
        drafts = [each.draft for each in self._sessions.values() if each.draft is not None]
        return min((each.place for each in drafts), default=None)

    @property
    def ends_are_logged(self) -> bool:
        """Return whether all ended statements had durations."""
        return self._durations > 0 and not self._lacking

    def _given(self) -> list[Statement]:
        out, self._out = self._out, []
        for each in out:
            self.counts.statements[each.act.value] += 1
            if each.unplayable is not None:
                self.counts.unplayable[each.unplayable] += 1
        return out

    # --- the kind of row

    def _taken(self, row: LogRow) -> RowOutcome:
        lines, outcome = self._lines(row)
        if outcome is not None:
            return outcome
        if row.severity not in SEVERITIES:
            return RowOutcome.ANOTHER_LANGUAGE
        if row.backend not in _CLIENTS:
            return RowOutcome.OTHER_PROCESS
        if row.severity in _FAILURES:
            return self._failure(row, lines)
        if row.severity == "LOG":
            return self._logged(row, logged_in(row.message), lines)
        return self._no_statement(row)

    def _lines(self, row: LogRow) -> tuple[Lines, RowOutcome | None]:
        """Return the session's line numbers up to this row, and an outcome for a row that was sent twice or is late."""
        session = self._sessions.get(row.session)
        lines = session.lines if session is not None else self._remembered[row.session]
        if row.line is None:
            lines = lines or Lines(0)
            lines.last += 1
        elif lines is None:
            lines = Lines(row.line - 1, row.line)
            self.counts.lost += self._beginnings.missing_before(row)
            lines.take(row)
        else:
            outcome = lines.again(row)
            if outcome is not None:
                return lines, outcome
            self.counts.lost += lines.take(row)
        if session is None:
            self._remembered.keep(row.session, lines)
        return lines, None

    def _logged(self, row: LogRow, done: Logged, lines: Lines) -> RowOutcome:
        if row.context is not None or row.query is not None:
            # Only RAISE LOG of a function sets both; the server's rows of statements and sessions do not.
            return self._no_statement(row)
        match done.kind:
            case Kind.OTHER:
                return self._no_statement(row)
            case Kind.TRANSLATED:
                return RowOutcome.ANOTHER_LANGUAGE
            case Kind.RECEIVED:
                self._process_begins(row)
                return RowOutcome.CONNECTION
            case Kind.CONNECTION:
                self._no_statement(row)
                return RowOutcome.CONNECTION
            case Kind.AUTHORIZED:
                self._connected(self._session(row, lines, begins=True), row)
                return RowOutcome.CONNECTION
            case Kind.DISCONNECTION:
                session = self._sessions.get(row.session)
                if session is not None:
                    self._ended(row.session, session, row)
                return RowOutcome.CONNECTION
        session = self._session(row, lines)
        if done.kind is Kind.DURATION:
            return self._duration(session, row, done)
        self._settle(session, row.place)
        if done.kind is Kind.PARSE:
            return RowOutcome.PARSE
        if done.kind is Kind.BIND:
            given = execution(session, row, done.sql, self.counts)
            unplayable = AMBIGUOUS if is_ambiguous(done.sql) else given.unplayable
            session.bound = Bound(
                done.sql, given.parameters, done.name, done.portal, row.time_us, unplayable
            )
            return RowOutcome.PARSE
        self._began(session, row, done)
        return RowOutcome.STATEMENT

    def _no_statement(self, row: LogRow) -> RowOutcome:
        session = self._sessions.get(row.session)
        if session is None:
            return RowOutcome.NO_STATEMENT if row.user is not None else RowOutcome.OTHER_PROCESS
        if session.draft is not None and session.draft.act is Act.CONNECT:
            self._settle(session, None)
        return RowOutcome.NO_STATEMENT

    # --- sessions

    def _process_begins(self, row: LogRow) -> None:
        """End the earlier session of a process id, in a log without session ids."""
        if row.line is None and row.session in self._sessions:
            self._ended(row.session, self._sessions[row.session], row)

    def _session(self, row: LogRow, lines: Lines, *, begins: bool = False) -> Session:
        session = self._sessions.get(row.session)
        if session is None:
            has_id = "." in row.session
            process = row.session.rpartition(".")[2]
            self._process_ends(process, row)
            # Process ids are reused; with the time they identify one session.
            name = row.session if has_id else f"{row.session}@{row.time_us}"
            # Its first row may have been read before it was a session; without line numbers, `last` counts rows.
            was_seen = lines.last > 1 if row.line is None else lines.first == 1
            from_beginning = begins or was_seen
            session = Session(name, process, from_beginning, lines)
            self._sessions[row.session] = session
            self._processes[process] = row.session
        session.user = row.user or session.user
        session.database = row.database or session.database
        session.application = row.application or session.application
        return session

    def _process_ends(self, process: str, row: LogRow) -> None:
        before = self._processes.pop(process, None)
        if before is not None and before in self._sessions and before != row.session:
            self._ended(before, self._sessions[before], None)

    def _connected(self, session: Session, row: LogRow) -> None:
        if not session.is_connected:
            session.is_connected = True
            session.is_in_transaction = False
            session.due_us = row.time_us
            line = session.lines.last
            session.draft = Draft(line, row.place, Act.CONNECT, row.time_us)

    def _ended(self, key: str, session: Session, row: LogRow | None) -> None:
        self._settle(session, row.place if row is not None else None)
        if session.is_connected:
            line, place, at = session.lines.last + 1, session.place, session.due_us
            if row is not None:
                line, place, at = session.lines.last, row.place, max(row.time_us, at)
            self._out.append(self._statement(session, Draft(line, place, Act.DISCONNECT, at)))
        del self._sessions[key]
        if self._processes.get(session.process) == key:
            del self._processes[session.process]
        self._remembered.keep(
            key, session.lines if row is None or row.line is not None else Lines(0)
        )

    # --- statements

    def _began(self, session: Session, row: LogRow, done: Logged) -> None:
        """Read a row with a statement that begins, or with a duration and a statement that has ended."""
        session.learn_transaction(row, done)
        given = given_by(session, row, done, self.counts)
        due_us = max(row.time_us - (done.duration_us or 0), session.due_us)
        self._draft(session, row, given, due_us)
        session.released = None
        if done.duration_us is not None:
            self._settle(session, row.place, duration_us=done.duration_us)

    def _draft(self, session: Session, row: LogRow, given: Given, due_us: int) -> None:
        if not session.is_connected:
            session.is_connected = True
            self.counts.open_at_begin += not session.is_from_beginning
            self._out.append(self._statement(session, Draft(0, row.place, Act.CONNECT, due_us)))
        session.due_us = due_us
        session.place = row.place
        session.draft = Draft(
            session.lines.last, row.place, given.act, due_us, given.sql, given.parameters,
            given.name, given.portal, given.unplayable, row.open_transaction,
        )  # fmt: skip

    def _duration(self, session: Session, row: LogRow, done: Logged) -> RowOutcome:
        draft = session.draft
        if row.tag in ("PARSE", "BIND"):
            return RowOutcome.PARSE
        if draft is not None and draft.act is not Act.CONNECT:
            self._settle(session, row.place, duration_us=done.duration_us)
            return RowOutcome.JOINED
        if session.released is not None:
            session.released = None
            return RowOutcome.JOINED
        self._began(session, row, done)
        return RowOutcome.STATEMENT

    def _settle(
        self,
        session: Session,
        done_place: int | None,
        *,
        duration_us: int | None = None,
        error: str | None = None,
    ) -> None:
        """Complete the session's current statement, which has ended, or whose end the next row implies."""
        draft, session.draft = session.draft, None
        if draft is None:
            return
        if draft.act is Act.CONNECT:
            done_place = draft.place
        elif session.ends_unseen and session.may_have_kept(draft):
            draft.unplayable = draft.unplayable or NOT_ENDED
        elif duration_us is not None:
            self._durations += 1
        elif error is None and done_place is not None:
            self._lacking += 1
        self._out.append(self._statement(session, draft, done_place, duration_us, error))

    def _statement(
        self,
        session: Session,
        draft: Draft,
        done_place: int | None = None,
        duration_us: int | None = None,
        error: str | None = None,
    ) -> Statement:
        was_open = session.is_in_transaction is True
        if draft.sql:
            session.is_in_transaction = sql_text.open_behind(
                session.is_in_transaction, draft.sql, error
            )
        return Statement(
            session.id, draft.line, draft.place, draft.act, draft.due_us, draft.sql, draft.parameters,
            draft.name, draft.portal, session.user, session.database, session.application,
            duration_us, done_place, was_open or session.is_in_transaction is True, error,
            draft.transaction, draft.unplayable,
        )  # fmt: skip

    # --- errors

    def _failure(self, row: LogRow, lines: Lines) -> RowOutcome:
        session = self._sessions.get(row.session)
        if session is None and row.query is None:
            return RowOutcome.NO_STATEMENT if row.user is not None else RowOutcome.OTHER_PROCESS
        session = session or self._session(row, lines)
        outcome = self._failed(session, row)
        if row.message == CANCELED and session.is_connected:
            draft = Draft(
                session.lines.last, row.place, Act.CANCEL, max(row.time_us, session.due_us)
            )
            self._out.append(self._statement(session, draft))
        if row.severity != "ERROR" and row.session in self._sessions:
            self._ended(row.session, session, row)
        return outcome

    def _failed(self, session: Session, row: LogRow) -> RowOutcome:
        session.shows_queries |= row.query is not None
        code = sqlstate_of(row)
        draft = session.draft
        if draft is not None and draft.act is Act.CONNECT and row.severity == "FATAL":
            self._settle(session, None, error=code)
            return RowOutcome.CONNECTION
        if draft is not None and draft.is_of(row):
            self._settle(session, row.place, error=code)
            return RowOutcome.ERROR
        if session.released is not None and row.query in (None, session.released):
            session.released = None
            return RowOutcome.ERROR
        self._settle(session, row.place)
        if row.query is None and (session.shows_queries or row.severity != "ERROR"):
            return self._failed_at_end(session, row, code)
        self._failed_alone(session, row, code)
        return RowOutcome.STATEMENT

    def _failed_at_end(self, session: Session, row: LogRow, code: str) -> RowOutcome:
        """Read an error at the end of an implicit transaction or of the session, not of a statement."""
        if row.severity != "ERROR":
            return RowOutcome.CONNECTION
        is_of_last = row.open_transaction and row.open_transaction == session.transaction
        if session.is_in_transaction or not is_of_last:
            return RowOutcome.NO_STATEMENT
        self._draft(session, row, Given(Act.EXECUTE, ""), max(row.time_us, session.due_us))
        self._settle(session, row.place, error=code)
        return RowOutcome.ERROR

    def _failed_alone(self, session: Session, row: LogRow, code: str) -> None:
        """Add a statement that only its error row shows: a syntax error, a failed BIND, or any (with durations)."""
        if (row.tag or "").startswith("idle"):
            session.is_in_transaction = (row.tag or "").startswith("idle in transaction")
        bound, due_us = session.bound, row.time_us
        if row.query is None:
            given = Given(Act.QUERY, "", unplayable="no-text")
        elif bound is not None and bound.sql == row.query and row.tag not in ("PARSE", "BIND"):
            given = Given(Act.EXECUTE, *bound[:4], bound.unplayable)
            due_us = bound.at_us
        elif row.tag == "PARSE":
            given = Given(Act.EXECUTE, row.query, ())
        else:
            given = failed_text(session, row, row.query, self.counts)
        self._draft(session, row, given, max(due_us, session.due_us))
        self._settle(session, row.place, error=code)
