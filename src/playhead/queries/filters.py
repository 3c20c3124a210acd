"""Decides which statements of a log are played, and gives the reason for others."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from playhead.queries.outside import outside_of_run
from playhead.queries.sql_text import SqlText
from playhead.queries.sql_tokens import for_parser, without_values
from playhead.queries.transactions import (
    CUT,
    FAILED,
    PERHAPS_KEPT,
    SEVERAL,
    TOO_MANY,
    UNDONE,
    UNDONE_LATE,
    is_unread,
)
from playhead.querylog import sql as parsed
from playhead.querylog.reach import LEDGER
from playhead.querylog.statement import UNPLAYABLE, Act, Statement

UNCLEAR = "unclear-text"
OUTSIDE = {
    "alter-system": "ALTER SYSTEM changes the whole server",
    "role": "roles belong to the whole server",
    "database": "databases and tablespaces belong to the whole server",
    "elsewhere": "they act beyond the database: dblink, subscriptions, foreign servers, the server's files",
    "copy-elsewhere": "COPY to or from a file or a program of the server",
}
FILTERS = {
    "filter-user": "--users",
    "filter-database": "--databases",
    "filter-application": "--applications",
    "filter-select": "--skip-selects",
    "filter-table": "--tables",
    "filter-query": "--queries",
    "filter-time": "outside of the span",
    UNDONE: "they were sent before one Sync, and one of them failed: the source kept nothing of them",
    FAILED: "they failed on the source, and could not be undone if they succeeded here",
}
IN_PART = {
    CUT: "their transaction began before the log or the span",
    LEDGER: "they change the ledger of replays",
    UNCLEAR: "it is not certain what the text does: the parser does not know it, or reads other statements",
    PERHAPS_KEPT: "CALL, or DO with COMMIT or CALL, that failed: what it had committed is in no log",
    TOO_MANY: "a text with more than 65,000 transactions",
    UNDONE_LATE: "they failed, and undid earlier ones before their Sync, which were played before the log showed it",
    SEVERAL: "a text with several transactions that failed: the log does not say in which",
}
REASONS = {**UNPLAYABLE, **OUTSIDE, **FILTERS, **IN_PART}


PLAYED_ALWAYS = frozenset(
    ("TransactionStmt", "VariableSetStmt", "PrepareStmt", "DeallocateStmt", "DiscardStmt")
)
"""What later statements depend on."""


def _matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which statements are played; empty means all."""

    users: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    skip_selects: bool = False
    tables: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    """Patterns of tables, and of texts without values in lower case, in which `*` is any text."""
    from_us: int | None = None
    to_us: int | None = None
    allowed: frozenset[str] = frozenset()
    """What may be done outside of the database, by the words of `OUTSIDE`; or `UNCLEAR`."""

    def reason(self, statement: Statement, sql: SqlText, *, is_inside: bool = False) -> str:
        """Return why a statement is not played: a word of `REASONS`; empty if it is played.

        A transaction is played as a whole or not at all. If `is_inside` one that is played, only the statement counts.
        """
        return ("" if is_inside else self._left_out(statement)) or self._refused(statement, sql)

    def _left_out(self, statement: Statement) -> str:
        if self.users and statement.user not in self.users:
            return "filter-user"
        if self.databases and statement.database not in self.databases:
            return "filter-database"
        if self.applications and statement.application not in self.applications:
            return "filter-application"
        return ""

    def _refused(self, statement: Statement, sql: SqlText) -> str:
        if not self._is_in_time(statement.due_us):
            return "filter-time"
        if statement.unplayable is not None:
            return statement.unplayable
        if statement.act not in (Act.QUERY, Act.EXECUTE):
            return ""
        known = parsed.understand(statement.sql)
        reaches = [sql.outside, known.reaches]
        if sql.has_escapes or len(statement.sql) > parsed.LONGEST:
            known = parsed.understand(for_parser(statement.sql, escapes=sql.has_escapes))
            reaches.append(known.reaches)
        for outside in (*reaches, *map(outside_of_run, known.runs)):
            if outside is not None and outside not in self.allowed:
                return outside
        # The source did not run what it could not read, and a transaction needs its error.
        if not known.is_understood and UNCLEAR not in self.allowed and not is_unread(statement):
            return UNCLEAR
        # Then one of the two does not see a statement that the server would run.
        if known.is_understood and len(known.kinds) != len(sql.parts):
            return UNCLEAR
        return self._filtered(statement, known)

    def _filtered(self, statement: Statement, known: parsed.Understanding) -> str:
        """Return the filter that leaves out a single statement, also one inside a transaction."""
        if self.skip_selects and known.is_select_only:
            return "filter-select"
        if not PLAYED_ALWAYS.isdisjoint(known.kinds):
            return ""
        # A statement that names no table may use any, such as one that calls a function.
        if self.tables and known.tables and not _matches(self.tables, known.tables):
            return "filter-table"
        if self.queries:
            text = " ".join(without_values(statement.sql).lower().split())
            return "" if _matches(self.queries, (text,)) else "filter-query"
        return ""

    def _is_in_time(self, due_us: int) -> bool:
        is_early = self.from_us is not None and due_us < self.from_us
        return not is_early and (self.to_us is None or due_us < self.to_us)
