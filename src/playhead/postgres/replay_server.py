"""PostgreSQL as a server on which queries are played: its marks, its ledger, who blocks whom, and what it leads to."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playhead.errors import PlayheadError, Unavailable
from playhead.ledger import Entry
from playhead.postgres.answers import NoPostgres, reading
from playhead.postgres.errors import RightMissing
from playhead.postgres.explain import open_explainer
from playhead.postgres.ledger import DEFAULT, Ledger
from playhead.postgres.own_table import OwnTable
from playhead.postgres.query_link import QueryLink, address_of, database_of, one_server
from playhead.postgres.query_marks import MARKS, TABLE_OF_MARKS, Marks
from playhead.postgres.session import Row, Session, answers_of, open_session
from playhead.postgres.terms import Replays
from playhead.server import (
    BackendStays,
    Control,
    Explainer,
    Marked,
    MarkUnreadable,
    Server,
    ServerFacts,
)
from playhead.tables.ledger import SavedTerms
from playhead.target import InUse
from playhead.terms import Terms

_UNFINISHED: Final = (
    f"m.is_before AND NOT EXISTS (SELECT FROM {MARKS.quoted} d WHERE d.run = m.run "
    "AND d.session = m.session AND d.line = m.line AND NOT d.is_before)"
)
"""The condition of a mark `m` of what was begun alone, and whose end has no mark."""
_GRANT: Final = "user or an administrator: GRANT the rights that are missing"
_RIGHTS: Final = """
    SELECT word FROM pg_catalog.pg_roles,
        LATERAL (VALUES (rolsuper, 'SUPERUSER'), (rolcreaterole, 'CREATEROLE'), (rolcreatedb, 'CREATEDB'),
            (rolreplication, 'REPLICATION')) given (has, word)
    WHERE rolname = session_user AND has
    UNION ALL SELECT rolname::text FROM pg_catalog.pg_roles
    WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER') AND rolname IN
        ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files', 'pg_signal_backend',
            'pg_create_subscription')
"""
_GONE_WITHIN_S: Final = 20.0
_ENDED: Final = (
    "SELECT pid::int8 FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.granted "
    "AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) "
    "AND ((l.classid::int8 << 32) | l.objid::int8) = {key} AND l.objsubid = 1 "
    "AND l.pid <> pg_catalog.pg_backend_pid()"
)


class PostgresControl(Control):
    """Statements of our own on one connection of PostgreSQL.

    With synchronous_commit = off, a server that crashed has lost what it had confirmed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = ExitStack()
        self._opened: Session | None = None
        self._is_lost = False

    def close(self) -> None:
        self._opened = None
        self._stack.close()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        if self._is_lost:
            raise Unavailable("the connection to the target was lost")
        try:
            if self._opened is None:
                self._opened = self._stack.enter_context(open_session(self._url, grant=_GRANT))
            # What is raised here does not pass through the block in which it was opened.
            with answers_of(self._url):
                yield self._opened
        except Unavailable:
            self._is_lost = True
            self.close()
            raise

    def facts(self) -> ServerFacts:
        with self._session() as session:
            version, database, user, free, is_standby, has_escapes = session.one(
                "SELECT pg_catalog.current_setting('server_version'), pg_catalog.current_database()::text, "
                "current_user::text, "
                "pg_catalog.current_setting('max_connections')::int8 "
                "- pg_catalog.current_setting('superuser_reserved_connections')::int8 "
                "- (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity "
                "WHERE backend_type = 'client backend'), "
                "pg_catalog.pg_is_in_recovery(), "
                "(SELECT reset_val = 'off' FROM pg_catalog.pg_settings "
                "WHERE name = 'standard_conforming_strings')",
                kinds=(str, str, str, int, bool, bool | None),
            )
            return ServerFacts(
                self._identifier(session),
                version,
                database,
                user,
                int(free),
                self._names(session, "subname", "pg_catalog.pg_subscription"),
                self._names(session, "srvname", "pg_catalog.pg_foreign_server"),
                bool(is_standby),
                self._log_folder(session),
                bool(has_escapes),
                self._rights(session),
            )

    @staticmethod
    def _rights(session: Session) -> tuple[str, ...]:
        found = [word for (word,) in session.rows(_RIGHTS, kinds=[str])]
        # It includes every other one.
        return ("SUPERUSER",) if "SUPERUSER" in found else tuple(sorted(found))

    @staticmethod
    def _log_folder(session: Session) -> str:
        found = _if_allowed(
            session,
            "SELECT pg_catalog.current_setting('data_directory'), pg_catalog.current_setting('log_directory')",
            kinds=(str, str),
        )
        return str(Path(*found[0])) if found else ""

    @staticmethod
    def _identifier(session: Session) -> str:
        statement = "SELECT system_identifier::text FROM pg_catalog.pg_control_system()"
        found = _if_allowed(session, statement, kinds=[str])
        return found[0][0] if found else ""

    @staticmethod
    def _names(session: Session, name: str, table: str) -> tuple[str, ...]:
        names = _if_allowed(session, f"SELECT {name}::text FROM {table} ORDER BY 1", kinds=[str])  # noqa: S608
        return tuple(each for (each,) in names)

    # --- the ledger and the marks

    def terms(self, run: str) -> Terms | None:
        with self._session() as session:
            return Replays(session, Ledger(session, DEFAULT), DEFAULT).get(run)

    def has_marks(self) -> bool:
        with self._session() as session:
            return OwnTable(session, MARKS, TABLE_OF_MARKS).exists()

    def prepare(self, run: str, terms: Terms) -> None:
        with self._session() as session:
            ledger = Ledger(session, DEFAULT)
            ledger.own.make()
            OwnTable(session, MARKS, TABLE_OF_MARKS).make()
            # A session of the log may have taken another role. Only the owner can grant it.
            with suppress(RightMissing):
                session.run(f"GRANT USAGE ON SCHEMA {MARKS.schema} TO PUBLIC")
                session.run(f"GRANT INSERT ON {MARKS.quoted} TO PUBLIC")
            replays = Replays(session, ledger, DEFAULT)
            replays.own.make()
            replays.agree(run, SavedTerms(terms))

    def hold(self, run: str) -> None:
        with self._session() as session:
            # The server may close connections that are idle.
            session.run(
                "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings "
                "WHERE name = 'idle_session_timeout'"
            )
            (mine,) = session.one(
                "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1, 0))",
                (f"playhead queries run {run}",),
                kinds=[bool],
            )
            if not mine:
                raise InUse(run, where=f"another process holds its lock in {session.where}")

    def fence(self, run: str) -> None:
        with self._session() as session:
            (number,) = session.one(f"SELECT {Marks(run).key()}", kinds=[int])
            until = time.monotonic() + _GONE_WITHIN_S
            while rows := session.rows(_ENDED.format(key=number), kinds=[int]):
                for (pid,) in rows:
                    session.run("SELECT pg_catalog.pg_terminate_backend($1::int8::int4)", (pid,))
                if time.monotonic() > until:
                    raise BackendStays(*(pid for (pid,) in rows))
                time.sleep(0.05)

    def entries(self, run: str) -> list[Entry]:
        with self._session() as session:
            return Ledger(session, DEFAULT).entries(run)

    def marked(self, run: str) -> Marked:
        with self._session() as session:
            if not OwnTable(session, MARKS, TABLE_OF_MARKS).exists():
                return Marked({}, frozenset(), {}, {})
            last = session.run(
                f"SELECT session, pg_catalog.max(line) FROM {MARKS.quoted} WHERE run = $1 AND NOT is_before "  # noqa: S608
                "GROUP BY session",
                (run,),
            )
            begun = session.run(
                f"SELECT session, line FROM {MARKS.quoted} m WHERE run = $1 AND {_UNFINISHED}",  # noqa: S608
                (run,),
            )
            named = session.run(
                f"SELECT session, divergent FROM {MARKS.quoted} WHERE run = $1 "  # noqa: S608
                "AND divergent IS NOT NULL",
                (run,),
            )
            with reading():
                return _marked(last, begun, named)

    def note(self, run: str, what: str) -> None:
        with self._session() as session:
            session.run(
                f"INSERT INTO {MARKS.quoted} (run, session, line, is_before, divergent) "  # noqa: S608
                "VALUES ($1, '', 0, false, $2)",
                (run, what),
            )

    def settle(
        self,
        run: str,
        entries: Sequence[Entry],
        ended: Sequence[str] = (),
        *,
        is_last: bool,
        has_marks: bool,
    ) -> None:
        with self._session() as session, session.transaction():
            for entry in entries:
                Ledger(session, DEFAULT).extend(run, entry)
            if not has_marks:
                return
            if is_last:
                session.run(f"DELETE FROM {MARKS.quoted} WHERE run = $1", (run,))  # noqa: S608
                return
            for name in ended:
                session.run(
                    f"DELETE FROM {MARKS.quoted} WHERE run = $1 AND session = $2",  # noqa: S608
                    (run, name),
                )
            session.run(
                f"DELETE FROM {MARKS.quoted} m USING (SELECT session, pg_catalog.max(line) AS line "  # noqa: S608
                f"FROM {MARKS.quoted} WHERE run = $1 AND NOT is_before GROUP BY session) l "
                "WHERE m.run = $1 AND m.session = l.session AND m.line < l.line "
                f"AND m.divergent IS NULL AND NOT ({_UNFINISHED})",
                (run,),
            )

    # --- while it plays

    def end_backend(self, backend: int) -> None:
        with self._session() as session:
            until = time.monotonic() + _GONE_WITHIN_S
            # Its number may be another's by now.
            alive = (
                "SELECT pid FROM pg_catalog.pg_stat_activity WHERE pid = $1::int8::int4 "
                "AND datname = pg_catalog.current_database() AND usename = session_user"
            )
            while backend and session.run(alive, (backend,)):
                session.run("SELECT pg_catalog.pg_terminate_backend($1::int8::int4)", (backend,))
                if time.monotonic() > until:
                    raise BackendStays(backend)
                time.sleep(0.02)

    def fate(self, run: str, session_id: str, backend: int) -> int | None:
        self.end_backend(backend)
        with self._session() as session:
            (line,) = session.one(
                f"SELECT pg_catalog.max(line) FROM {MARKS.quoted} WHERE run = $1 AND session = $2 "  # noqa: S608
                "AND NOT is_before",
                (run, session_id),
                kinds=[int | None],
            )
            return None if line is None else int(line)

    def answers(self) -> None:
        with self._session() as session:
            session.run("SELECT 1")

    def blockers(self, pids: Sequence[int]) -> dict[int, tuple[int, ...]]:
        listed = "{" + ",".join(str(int(pid)) for pid in pids) + "}"
        with self._session() as session:
            rows = session.rows(
                "SELECT pid::int8, pg_catalog.array_to_string(pg_catalog.pg_blocking_pids(pid), ',') "
                "FROM pg_catalog.unnest($1::text::int4[]) pid",
                (listed,),
                kinds=(int, str | None),
            )
            with reading():
                return {
                    pid: tuple(int(each) for each in blocking.split(","))
                    for pid, blocking in rows
                    if blocking
                }


def _marked(last: list[Row], begun: list[Row], named: list[Row]) -> Marked:
    divergent: dict[tuple[str, int], int] = {}
    notes: Counter[str] = Counter()
    for name, text in named:
        for each in str(text).split(","):
            if name:
                divergent.update([_told(str(name), each)])
            else:
                notes[each] += 1
    lines = {str(name): int(line) for name, line in last if name}
    doubt = frozenset((str(name), int(line)) for name, line in begun)
    return Marked(lines, doubt, divergent, dict(notes))


def _told(session: str, text: str) -> tuple[tuple[str, int], int]:
    """Return the line and the outcome that a mark tells of."""
    at, _, outcome = text.partition(":")
    try:
        return (session, int(at)), int(outcome)
    except ValueError as exc:
        raise MarkUnreadable(session=session, said=text) from exc


def _if_allowed(session: Session, statement: str, *, kinds: Sequence[Any]) -> Sequence[Row]:
    """Return the rows of a statement; none if it needs a right that only some users have."""
    try:
        return session.rows(statement, kinds=kinds)
    except (Unavailable, NoPostgres):
        raise
    except PlayheadError:
        return []


@dataclass(frozen=True, slots=True)
class PostgresServer(Server):
    """The database at an address of libpq."""

    url: str = field(repr=False)

    @property
    def database(self) -> str:
        return database_of(self.url)

    def control(self) -> PostgresControl:
        one_server(self.url)
        return PostgresControl(self.url)

    def linker(self, facts: ServerFacts, *, has_checksums: bool) -> Callable[[], QueryLink]:
        address = address_of(self.url, major=int(facts.version.partition(".")[0]))
        return lambda: QueryLink(address, has_checksums=has_checksums)

    def marks(self, replay_id: str) -> Marks:
        return Marks(replay_id)

    def explainer(self) -> AbstractContextManager[Explainer]:
        return open_explainer(self.url)
