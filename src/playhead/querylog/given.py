"""Returns the statement of a row with its parameters, or the reason why it cannot be played."""

import re
from hashlib import sha256
from typing import Final, NamedTuple

from playhead.querylog import sql as sql_text
from playhead.querylog.counts import Counts
from playhead.querylog.logged import Kind, Logged
from playhead.querylog.parameters import (
    Parameters,
    longest_stem,
    longest_whole,
    parameters_of_error,
    read_parameters,
)
from playhead.querylog.rows import LogRow
from playhead.querylog.sessions import Session
from playhead.querylog.statement import Act

_NUMBERED: Final = re.compile(r"\$[0-9]")
_CUT: Final = re.compile(": ")
_MOST_CUTS: Final = 16
_LONGEST_WORD: Final = 100
_COMMANDS: Final = frozenset(
    ("abort", "alter", "analyze", "begin", "call", "checkpoint", "close", "cluster", "comment",
     "commit", "copy", "create", "deallocate", "declare", "delete", "discard", "do", "drop", "end",
     "execute", "explain", "fetch", "grant", "import", "insert", "listen", "load", "lock", "merge",
     "move", "notify", "prepare", "reassign", "refresh", "reindex", "release", "reset", "revoke",
     "rollback", "savepoint", "security", "select", "set", "show", "start", "table", "truncate",
     "unlisten", "update", "vacuum", "values", "with")
)  # fmt: skip
_COPY: Final = re.compile(r"\bcopy\b", re.IGNORECASE)
AMBIGUOUS: Final = "ambiguous-name"
_CLIPPED: Final = 3
_PREPARE: Final = "prepare: "
_MOST_PREPARED: Final = 1_000
"""A value is cut at a character's border, at most this number of bytes before the limit."""


class Given(NamedTuple):
    """The statement of a row; the first four fields are those of a `Statement`."""

    act: Act
    sql: str
    parameters: Parameters | None = None
    name: str = ""
    portal: str = ""
    unplayable: str | None = None


def query_of(text: str) -> Given:
    """Return the statement of the simple protocol."""
    return Given(Act.QUERY, text, unplayable=_copied(text))


def execution(
    session: Session, row: LogRow, text: str, counts: Counts, *, is_error: bool = False
) -> Given:
    """Return the statement of the extended protocol, with the parameters of the row."""
    copied = _copied(text)
    if copied is not None:
        return Given(Act.EXECUTE, text, unplayable=copied)
    values = parameters_of_error(row.context) if is_error else read_parameters(row.detail)
    if values is None:
        return Given(Act.EXECUTE, text, *_without(row, text, is_error=is_error))
    if row.cuts_parameters and _perhaps_cut(session, values, counts):
        return Given(Act.EXECUTE, text, values, unplayable="truncated-parameters")
    return Given(Act.EXECUTE, text, values)


def is_ambiguous(text: str) -> bool:
    """Return whether the name before a text may have been longer: clients choose it, and the log does not quote it.

    `execute NAME: TEXT` is split at its first colon. If a statement follows a later colon too, the server may have
    executed that statement.
    """
    cuts = [at for found in _CUT.finditer(text) if _may_begin(text, at := found.end())]
    return len(cuts) > _MOST_CUTS or any(sql_text.understand(text[at:]).kinds for at in cuts)


def _may_begin(text: str, at: int) -> bool:
    beginning = text[at : at + _LONGEST_WORD].lstrip()
    word = sql_text.first_word(beginning)
    return word in _COMMANDS or (not word and beginning.startswith(("--", "/*", "(")))


def _without(
    row: LogRow, text: str, *, is_error: bool
) -> tuple[Parameters | None, str, str, str | None]:
    if not _needs_parameters(text):
        return (), "", "", None
    has_detail = row.is_torn or (row.detail or "").lower().startswith("parameters: ")
    return None, "", "", "torn-parameters" if has_detail and not is_error else "no-parameters"


def _needs_parameters(text: str) -> bool:
    if _NUMBERED.search(text) is None:
        return False
    known = sql_text.understand(text)
    return known.parameters > 0 or not known.is_understood


def _copied(text: str) -> str | None:
    """Return the reason for COPY FROM STDIN, whose data is in no log; None for other statements."""
    if _COPY.search(text) is None or not sql_text.understand(text).has_copy_data:
        return None
    return "copy-data"


def _perhaps_cut(session: Session, values: Parameters, counts: Counts) -> bool:
    """Return whether the server may have truncated a value (log_parameter_max_length).

    A truncated value ends in `...`, but a complete one may too. It is certainly complete only if the session has a
    complete value that is longer than the limit that the truncation would imply.
    """
    session.longest_whole = max(session.longest_whole, longest_whole(values))
    stem = longest_stem(values)
    if stem < 0:
        return False
    if session.longest_whole > stem + _CLIPPED:
        counts.perhaps_cut += 1
        return False
    return True


def prepared_first(session: Session, row: LogRow, text: str) -> str:
    """Return a text, with the PREPARE that stands beside EXECUTE if the session had it before the log began."""
    if session.is_from_beginning or len(session.prepared) >= _MOST_PREPARED:
        return text
    if "prepare" in text.lower():
        session.prepared.add(_digest(text))
    detail = row.detail or ""
    if not detail.lower().startswith(_PREPARE):
        return text
    prepare = detail[len(_PREPARE) :]
    if _digest(prepare) in session.prepared or sql_text.understand(prepare).kinds != (
        "PrepareStmt",
    ):
        return text
    session.prepared.add(_digest(prepare))
    return f"{prepare.rstrip().rstrip(';')};\n{text}"


def _digest(text: str) -> bytes:
    """Return a text's hash, because a text can be as long as a row."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def failed_text(session: Session, row: LogRow, text: str, counts: Counts) -> Given:
    """Return what a text was that only its error shows."""
    is_extended = row.tag == "BIND" or "parameter" in (row.context or "")
    known = execution(session, row, text, counts, is_error=True)
    if is_extended or known.parameters or known.unplayable == "no-parameters":
        return known
    return query_of(text)


def given_by(session: Session, row: LogRow, done: Logged, counts: Counts) -> Given:
    """Return the statement of a row that shows its beginning, or its end with a duration."""
    if done.kind is Kind.DURATION:
        return Given(Act.QUERY, "", unplayable="no-text")
    if done.kind is Kind.FASTPATH:
        return Given(Act.QUERY, done.sql, unplayable="fastpath")
    if done.kind is Kind.STATEMENT:
        return query_of(prepared_first(session, row, done.sql))
    given = execution(session, row, done.sql, counts)
    act = Act.FETCH if done.kind is Kind.FETCH else Act.EXECUTE
    if is_ambiguous(done.sql):
        return Given(act, done.sql, unplayable=AMBIGUOUS)
    return given._replace(act=act, name=done.name, portal=done.portal)
