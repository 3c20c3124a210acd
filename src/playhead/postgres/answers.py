"""Answers of a server that no PostgreSQL gives: of a broken pooler, or of a server that lies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from playhead import secrets
from playhead.errors import PlayheadError

_LONGEST_REASON = 200
_Row = TypeVar("_Row", bound=tuple[Any, ...])


class AnswerMisformed(Exception):
    """An answer cannot be read, or does not have the form that its statement asks for."""


class NoPostgres(PlayheadError):
    """A server answered a statement as no PostgreSQL does."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"the server at {where} does not answer as PostgreSQL does: {reason}",
            hint="check that the address leads to PostgreSQL, and what is between it and this machine",
        )


@contextmanager
def reading(*own: type[Exception]) -> Iterator[None]:
    """Raise AnswerMisformed for whatever is raised by values that are not what their statement asks for.

    For a block that does nothing but read an answer; its `own` errors and ours pass.
    """
    try:
        yield
    except Exception as exc:
        if isinstance(exc, (AnswerMisformed, PlayheadError, MemoryError, *own)):
            raise
        reason = f"{type(exc).__name__}: {exc}".partition("\n")[0]
        raise AnswerMisformed(secrets.redacted_start(reason, _LONGEST_REASON)) from exc


def only_row(rows: Sequence[tuple[Any, ...]], kinds: Sequence[Any]) -> tuple[Any, ...]:
    """Return the one row of an answer, whose values are of these types.

    `...` first stands for any values before the others, and last for more values of the type before it.
    """
    if len(rows) != 1:
        raise AnswerMisformed(f"{len(rows):,} rows instead of one")
    [row] = rows
    _expect(row, kinds)
    return row


def rows_of(rows: Sequence[_Row], kinds: Sequence[Any]) -> Sequence[_Row]:
    """Return the rows of an answer, each of which has values of these types, as `only_row` describes them."""
    for row in rows:
        _expect(row, kinds)
    return rows


def _expect(row: tuple[Any, ...], kinds: Sequence[Any]) -> None:
    """Refuse a row whose values are not of these types, or not among the words of a set."""
    found, wanted = list(row), list(kinds)
    if wanted[0] is ...:
        wanted = wanted[1:]
        found = found[-len(wanted) :]
    elif wanted[-1] is ...:
        wanted[-1:] = wanted[-2:-1] * (len(found) - len(wanted) + 1)
    if len(found) != len(wanted):
        raise AnswerMisformed(f"{len(row)} columns instead of {len(wanted)}")
    for value, kind in zip(found, wanted, strict=True):
        if not isinstance(value, str if isinstance(kind, frozenset) else kind):
            raise AnswerMisformed(f"a value of the type {type(value).__name__}")
        if isinstance(kind, frozenset) and value not in kind:
            raise AnswerMisformed("a word that the statement does not have")
