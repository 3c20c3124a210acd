"""Says what an error of the server means for us: try again later, mend a permission, or a bad record."""

from typing import Any

from playhead import secrets
from playhead.errors import PlayheadError, Unavailable

# Classes of SQLSTATE: data exceptions, and what a constraint refuses.
_DATA_CLASSES = ("22", "23")
# Two rows of one statement meet in a key, which the server knows to be equal and we did not.
_TWICE = "21000"
UNIQUE_VIOLATION = "23505"
# A value, such as JSON, nested more deeply than the server can read.
_TOO_DEEP = "54001"
_PASSING = {
    "40001": "it could not be put in order with what others wrote at the same time",
    "40P01": "a deadlock with what others wrote at the same time",
    "55P03": "a lock was not to be had in time",
    "57014": "it took longer than the server allows, or somebody cancelled it",
    "53100": "the server's disk is full",
    "53200": "the server is out of memory",
    "53300": "the server has no connection left",
    "57P01": "the server was told to end the connection",
    "57P02": "the server crashed",
    "57P03": "the server is starting or stopping",
    "57P05": "the connection was idle for longer than the server allows",
    "25P03": "the transaction was idle for longer than the server allows",
    "25P04": "the transaction took longer than the server allows",
    "25006": "the server is a replica, or read-only",
}
_PASSING_CLASSES = ("08", "53", "58")
# Classes of what no record can be blamed for: connections, transactions, rights, the server itself.
_NOBODYS_CLASSES = (
    *("08", "0L", "0P", "24", "25", "26", "28", "2B", "2D", "34", "3B", "3D", "40", "53", "55"),
    *("57", "58", "72", "F0", "HV", "XX"),
)
# Said of a text that a type cannot read; and of what is missing, by a statement inside a trigger.
_UNSURE_CLASSES = ("0A", "3F", "42")
_NOT_ALLOWED = "42501"
_GONE = {
    "3D000": "the database",
    "3F000": "the schema",
    "42P01": "the table",
    "42703": "a column",
}


class SliceNotWritten(Unavailable):
    """A transaction ended without a commit that we know of; the ledger knows whether there was one."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"PostgreSQL at {where} did not take a slice: {reason}",
            hint="nothing of it is lost: `playhead resume` goes on from what the ledger says",
        )


class NotAllowed(PlayheadError):
    """The database's user may not do what is needed."""

    def __init__(
        self, where: str, *, reason: str, grant: str, sqlstate: str | None = None, inside: str = ""
    ) -> None:
        self.where, self.reason, self.grant = where, reason, grant
        self.sqlstate, self.inside = sqlstate, inside
        super().__init__(f"PostgreSQL at {where} does not allow it: {reason}", hint=grant)


class TableChanged(PlayheadError):
    """The table is not the one that the replay was begun with."""

    def __init__(self, table: str, *, reason: str) -> None:
        self.table, self.reason = table, reason
        super().__init__(
            f"table {table} has changed since the replay began: {reason}; nothing was written to it",
            hint="plan again, so that the plan says what goes where now",
        )


class StatementRefused(PlayheadError):
    """The server refused a statement for a reason that trying again does not change."""

    def __init__(self, where: str, *, sqlstate: str | None, reason: str, inside: str = "") -> None:
        self.where, self.sqlstate, self.reason = where, sqlstate, reason
        self.inside = inside
        super().__init__(
            f"PostgreSQL at {where} refused: {reason}",
            hint="the server's log has the statement",
        )


class DataError(Exception):
    """The server refused values, not the statement, inside a transaction."""

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
        super().__init__(reason)


def translated(error: Any, *, where: str, grant: str, connection_lost: bool) -> Exception:
    """One of ours for an error of either driver."""
    sqlstate = error.sqlstate
    reason, facts = secrets.redact(_sentence(error)), _facts(error)
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
    if sqlstate == _NOT_ALLOWED:
        return NotAllowed(where, reason=reason, grant=grant, sqlstate=sqlstate, inside=inside)
    return StatementRefused(where, sqlstate=sqlstate, reason=reason, inside=inside)


def of_a_record(refusal: StatementRefused | NotAllowed, *, has_policies: bool) -> DataError | None:
    """The same as what may be one record's fault, when a statement for rows has met it.

    Whoever asks has to see that the statement is not refused without any rows as well.
    """
    sqlstate = refusal.sqlstate
    if sqlstate is None or sqlstate[:2] in _NOBODYS_CLASSES:
        return None
    if sqlstate[:2] in _UNSURE_CLASSES and refusal.inside:
        return None  # some statement of a trigger's own: what it lacks is to be mended there
    if sqlstate == _NOT_ALLOWED and not has_policies:
        return None
    return DataError(sqlstate, refusal.reason)


def _sentence(error: Any) -> str:
    facts = _facts(error)
    primary = facts.get("PG_DIAG_MESSAGE_PRIMARY")
    if primary:
        detail = facts.get("PG_DIAG_MESSAGE_DETAIL", "")
        # Not the whole row, which this one shows: that is the record's own, and may be long.
        is_told = detail and not detail.startswith("Failing row contains")
        return f"{primary} ({detail})" if is_told else primary
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _facts(error: Any) -> dict[str, str]:
    """What the server said beside its sentence; the drivers keep it in different places."""
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
