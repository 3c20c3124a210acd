"""Translates the server's errors: try again later, fix a permission, or refuse a record."""

import re
from typing import Any

from playhead import secrets
from playhead.errors import PlayheadError, Unavailable

# SQLSTATE classes for values and constraints.
_DATA_CLASSES = ("22", "23")
# Two rows of one statement have a key that only the server knows to be equal.
_TWICE = "21000"
UNIQUE_VIOLATION = "23505"
# A value, such as JSON, is nested too deeply for the server.
_TOO_DEEP = "54001"
# A row is larger than a page, a text longer than its type or index can hold.
TOO_LARGE = "54000"
# The code of errors that have none, also of values that a type or an index cannot read (PostGIS, pgvector).
_NO_CODE = "XX000"
# How those begin that are no value's fault; these texts are in English everywhere.
_OF_THE_SERVER = (
    "cache lookup failed",
    "could not open relation",
    "could not find",
    "tuple concurr",
)
# How the first line of the context ends for an error of `RAISE`: its author chose the code.
_RAISE = " RAISE"
_PASSING = {
    "40001": "it conflicts with concurrent transactions",
    "40P01": "it deadlocked with concurrent transactions",
    "55P03": "it did not get a lock in time",
    "57014": "it exceeded the server's time limit, or was cancelled",
    "53100": "the server's disk is full",
    "53200": "the server is out of memory",
    "53300": "the server has no free connection",
    "57P01": "an administrator ended the connection",
    "57P02": "the server crashed",
    "57P03": "the server is starting or stopping",
    "57P05": "the connection was idle for longer than the server allows",
    "25P03": "the transaction was idle for longer than the server allows",
    "25P04": "the transaction took longer than the server allows",
    "25006": "the server is a replica, or read-only",
}
_PASSING_CLASSES = ("08", "53", "58")
# SQLSTATE classes that are no record's fault: connections, transactions, rights, the server itself.
_NOBODYS_CLASSES = (
    *("08", "0L", "0P", "24", "25", "26", "28", "2B", "2D", "34", "3B", "3D", "40", "53", "55"),
    *("57", "58", "72", "F0", "HV", "XX"),
)
# A text that a type cannot parse; and a missing object in a statement of a trigger.
_UNSURE_CLASSES = ("0A", "3F", "42")
_NOT_ALLOWED = "42501"
_OF_A_SCHEMA = re.compile(r"permission denied for schema (\S+)")
# What `regtype` says of a text that is no name of a type, with this text as its context.
_SYNTAX = "42601"
_GONE = {
    "3D000": "the database",
    "3F000": "the schema",
    "42P01": "the table",
    "42703": "a column",
}

_KINDS = {
    "22001": "too_long",
    "22003": "out_of_reach",
    "22008": "out_of_reach",
    "22021": "utf8",
    "22P05": "utf8",
    "23502": "null",
    "23503": "reference",
    UNIQUE_VIOLATION: "conflict",
    "54000": "too_long",
    "54001": "json",
}
# Other SQLSTATEs come from a constraint, a row security policy, or a trigger.
_OF_TYPES = ("0A", "21", "22", "3F", "42", "XX")
_POLICY = "42501"

# PostgreSQL's own are of some hundred characters; a trigger's may be longer, and those of a hostile server endless.
_LONGEST = 10_000


class SliceNotWritten(Unavailable):
    """A transaction ended without a confirmed commit; the ledger knows its result."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"PostgreSQL at {where} did not commit a slice: {reason}",
            hint="no data is lost: `playhead resume` continues from the ledger",
        )


class RightMissing(PlayheadError):
    """The database user lacks a right."""

    def __init__(
        self,
        where: str,
        *,
        reason: str,
        grant: str,
        sqlstate: str | None = None,
        inside: str = "",
        is_raised: bool = False,
    ) -> None:
        self.where, self.reason, self.grant = where, reason, grant
        self.sqlstate, self.inside, self.is_raised = sqlstate, inside, is_raised
        super().__init__(f"PostgreSQL at {where} does not allow it: {reason}", hint=grant)


class TableChanged(PlayheadError):
    """The table is not the one with which the replay began."""

    def __init__(self, table: str, *, reason: str) -> None:
        self.table, self.reason = table, reason
        super().__init__(
            f"table {table} has changed since the replay began: {reason}; nothing more was written to it",
            hint="make a new plan for the present table",
        )


class StatementRefused(PlayheadError):
    """The server refused a statement permanently."""

    def __init__(
        self,
        where: str,
        *,
        sqlstate: str | None,
        reason: str,
        inside: str = "",
        is_raised: bool = False,
    ) -> None:
        self.where, self.sqlstate, self.reason = where, sqlstate, reason
        self.inside, self.is_raised = inside, is_raised
        super().__init__(
            f"PostgreSQL at {where} refused: {reason}",
            hint="the server's log has the statement",
        )


class DataError(Exception):
    """The server refused values, not the statement, in a transaction."""

    def __init__(
        self,
        sqlstate: str,
        reason: str,
        *,
        constraint: str | None = None,
        column: str | None = None,
    ) -> None:
        self.sqlstate, self.reason = sqlstate, reason
        self.constraint, self.column = constraint, column
        self.doubt: PlayheadError | None = None
        """What it is instead if the same happens to every record: a fault of a trigger."""
        super().__init__(reason)


def translated(error: Any, *, where: str, grant: str, connection_lost: bool) -> Exception:
    """Return Playhead's error for an error of either driver."""
    sqlstate = error.sqlstate
    reason = secrets.redacted_start(_sentence(error), _LONGEST)
    facts = _facts(error)
    if connection_lost or (sqlstate is None and _is_lost(reason)):
        return SliceNotWritten(where, reason=reason)
    if sqlstate is None:
        return StatementRefused(where, sqlstate=None, reason=reason)
    if sqlstate in _PASSING or sqlstate[:2] in _PASSING_CLASSES:
        cause = _PASSING.get(sqlstate)
        return SliceNotWritten(where, reason=f"{cause}: {reason}" if cause else reason)
    if sqlstate[:2] in _DATA_CLASSES or sqlstate in (_TWICE, _TOO_DEEP):
        return DataError(
            sqlstate,
            reason,
            constraint=facts.get("PG_DIAG_CONSTRAINT_NAME"),
            column=facts.get("PG_DIAG_COLUMN_NAME"),
        )
    inside = facts.get("PG_DIAG_CONTEXT", "")
    is_raised = inside.partition("\n")[0].endswith(_RAISE)
    if sqlstate == _SYNTAX and "PG_DIAG_INTERNAL_QUERY" not in facts:
        inside = ""  # Of a statement inside, the server would say which it is.
    told: dict[str, Any] = {
        "reason": reason,
        "sqlstate": sqlstate,
        "inside": inside,
        "is_raised": is_raised,
    }
    if sqlstate == _NOT_ALLOWED:
        schema = _OF_A_SCHEMA.search(reason)
        if schema is not None:
            grant = f"GRANT USAGE ON SCHEMA {schema[1]} TO this_user; CREATE too, if a table is to be made there"
        return RightMissing(where, grant=grant, **told)
    return StatementRefused(where, **told)


def of_a_record(
    refusal: StatementRefused | RightMissing, *, has_policies: bool
) -> DataError | None:
    """Return the error as a possible fault of one record, for a statement with rows.

    The caller must check that the same statement without rows is not refused too.
    """
    sqlstate = refusal.sqlstate
    if sqlstate is None:
        return None
    if refusal.is_raised:
        return DataError(sqlstate, refusal.reason)  # By a trigger or a check of the table.
    if sqlstate == _NO_CODE and not refusal.reason.startswith(_OF_THE_SERVER):
        return DataError(sqlstate, refusal.reason)
    if sqlstate[:2] in _NOBODYS_CLASSES:
        return None
    if sqlstate == _NOT_ALLOWED and (refusal.inside or not has_policies):
        return None
    error = DataError(sqlstate, refusal.reason)
    if sqlstate[:2] in _UNSURE_CLASSES and refusal.inside:
        # A statement of a trigger lacks something: that must be fixed in the trigger, unless it is made of a value.
        error.doubt = refusal
    return error


def kind_of(sqlstate: str) -> str:
    """Return one word for why the server refuses a record."""
    if sqlstate in _KINDS:
        return _KINDS[sqlstate]
    is_of_type = sqlstate[:2] in _OF_TYPES and sqlstate != _POLICY
    return "type" if is_of_type else "check"


def _sentence(error: Any) -> str:
    facts = _facts(error)
    primary = facts.get("PG_DIAG_MESSAGE_PRIMARY")
    if primary:
        detail = facts.get("PG_DIAG_MESSAGE_DETAIL", "")
        # Without the whole row, which this detail would show: it is private, and may be long.
        is_told = detail and not detail.startswith("Failing row contains")
        return f"{primary} ({detail})" if is_told else primary
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _facts(error: Any) -> dict[str, str]:
    """Return the details of a server's error; each driver stores them differently."""
    details = getattr(error, "details", None)
    if details is not None:
        return {_text(key): _text(value) for key, value in details}
    diag = getattr(error, "diag", None)
    if diag is None or diag.message_primary is None:
        return {}
    named = {
        "PG_DIAG_MESSAGE_PRIMARY": diag.message_primary,
        "PG_DIAG_MESSAGE_DETAIL": diag.message_detail,
        "PG_DIAG_CONSTRAINT_NAME": diag.constraint_name,
        "PG_DIAG_COLUMN_NAME": diag.column_name,
        "PG_DIAG_CONTEXT": diag.context,
        "PG_DIAG_INTERNAL_QUERY": diag.internal_query,
    }
    return {key: value for key, value in named.items() if value}


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _is_lost(reason: str) -> bool:
    signs = (
        "server closed the connection",
        "no connection to the server",
        "could not receive data",
    )
    return any(sign in reason for sign in (*signs, "could not send data", "terminating connection"))
