"""What a statement means to its session and to the server, in flags that the player reads."""

import re
from typing import Final

from playhead.queries.settings import change_of
from playhead.queries.sql_text import SqlText
from playhead.queries.transactions import is_unread
from playhead.querylog.logged import UNKNOWN_SQLSTATE
from playhead.querylog.statement import Act, Statement
from playhead.querylog.text_shape import ByShape, shape_of

_STICKY: Final = re.compile(
    r"\bpg_temp\b|\bpg_(?:try_)?advisory_lock|\bwith\s+hold\b", re.IGNORECASE
)
_TEMPORARY: Final = re.compile(
    r"\b(?:create(?:\s+or\s+replace)?|into)\s+(?:(?:local|global)\s+)?temp(?:orary)?\b",
    re.IGNORECASE,
)
_DROPPED: Final = re.compile(r"\bon\s+commit\s+drop\b", re.IGNORECASE)
TIMING: Final = frozenset(("57014", "55P03", "40P01", "40001", "57P01", "25P03", "57P05"))
"""SQLSTATEs that depend on the moment: that they do not come again is no divergence."""
_UNLOCKS: Final = re.compile(r"\bdiscard\b|unlock_all", re.IGNORECASE)
_SETS: Final = re.compile(
    r"\bset_config\b(?!\s*\([^()]*,\s*(?:true|'t(?:rue)?')\s*\))", re.IGNORECASE
)
"""A call that sets something for longer than the transaction."""
_SETS_IN_BLOCK: Final = re.compile(
    r"(?:;|\bbegin|\bthen|\belse|\bloop|['$])\s*(?:re)?set\s+(?!local\b|constraints\b|transaction\b)",
    re.IGNORECASE,
)
"""SET as a statement of a block, or at the beginning of a text that it executes; not that of UPDATE."""


class Flag:
    """What a statement means to its session and to the server: bits of a number, which is read for each statement."""

    WRITES: Final = 1
    """It may change something."""
    ALONE: Final = 2
    """It cannot share a transaction with a mark."""
    CONTROLS: Final = 4
    """It begins or ends a transaction."""
    STANDS_IN: Final = 8
    """It failed on the source and cannot be played: what is sent instead fails, so that its transaction does."""
    STICKY: Final = 16
    """It leaves something in its session that a new connection would not have."""
    UNLOCKS: Final = 32
    """It may release the advisory locks of its session."""
    FORCES: Final = 64
    """If it succeeds although it failed on the source, it is undone."""
    WITHDRAWS: Final = 128
    """It cannot be played and ends a transaction, of which something may be played: all of it is rolled back."""
    UNDOES: Final = 256
    """It is a COMMIT that failed on the source, and might not fail here: a ROLLBACK is played."""


def has_text(statement: Statement) -> bool:
    """Whether it is a text that is sent."""
    return statement.act in (Act.QUERY, Act.EXECUTE)


def flags_of(
    statement: Statement, sql: SqlText, *, writes: bool, was_open: bool
) -> tuple[int, int]:
    """Return the flags of a statement, and where a mark goes into its text."""
    if not has_text(statement):
        return 0, -1
    flags = _OF_TEXTS.get(sql.text)
    if flags is None:
        flags = _flags_of_text(sql)
        _OF_TEXTS.keep(sql.text, flags)
    if writes:
        flags |= Flag.WRITES
    has_run = statement.expected_error is not None and not is_unread(statement)
    if has_run and (not flags & Flag.ALONE or was_open) and not flags & Flag.CONTROLS:
        flags |= Flag.FORCES
    commits = [part.start for part in sql.parts if part.keeps_changes]
    return flags, commits[0] if len(commits) == 1 else -1


_OF_TEXTS: Final = ByShape[int]()


def _flags_of_text(sql: SqlText) -> int:
    text = shape_of(sql.text) or sql.text
    return (
        (Flag.ALONE if sql.runs_alone else 0)
        | (Flag.CONTROLS if sql.controls else 0)
        | (Flag.STICKY if _is_sticky(text) or _sets_unseen(sql) else 0)
        | (Flag.UNLOCKS if _UNLOCKS.search(text) else 0)
    )


def _is_sticky(text: str) -> bool:
    """Whether it takes a lock of the session, or makes a table for it that no transaction drops."""
    if _STICKY.search(text):
        return True
    # If the last one is dropped, those before it may be too.
    end = max((found.end() for found in _TEMPORARY.finditer(text)), default=-1)
    return end >= 0 and _DROPPED.search(text, end) is None


def fails_to_commit(statement: Statement, sql: SqlText) -> bool:
    """Whether it is a COMMIT that failed for a reason that may not come again, so that it would succeed here."""
    error = statement.expected_error
    is_commit = sql.only is not None and sql.only.keeps_changes
    return is_commit and (error in TIMING or error == UNKNOWN_SQLSTATE)


def _sets_unseen(sql: SqlText) -> bool:
    """Whether it sets something that is not known as a change, so that a new connection would not get it."""
    for part in sql.parts:
        span = part.start, part.end
        if _SETS.search(sql.text, *span) and change_of(sql, part, ()) is None:
            return True
        if part.begins_with("DO") and _SETS_IN_BLOCK.search(sql.text, *span):
            return True
    return False
