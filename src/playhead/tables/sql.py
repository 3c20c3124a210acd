"""A connection to a SQL database, and the parts of statements that most databases share.

Statements have numbered parameters: $1, $2 and so on.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

# SQLite refuses an expression of a thousand levels.
_GROUP = 100


class SqlSession(Protocol):
    """A connection on which every transaction begins and ends explicitly."""

    def run(self, statement: str, parameters: Sequence[Any] = (), /) -> Sequence[tuple[Any, ...]]:
        """Return the rows of one statement."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end of the block, and roll back if it fails."""
        ...


class RowSession(SqlSession, Protocol):
    """A connection to a database that is given one row after another."""

    refusals: ClassVar[tuple[type[Exception], ...]]
    """The errors about a single row; the transaction can continue after them."""
    is_same: ClassVar[str]
    """The operator for equal values that also takes two NULLs for equal."""
    by_bytes: ClassVar[str]
    """What makes a comparison of texts exact."""
    stored_by_key: ClassVar[str]
    """What ends the creation of a table whose rows lie in the order of its key."""

    @property
    def in_transaction(self) -> bool: ...

    def has_table(self, name: str, made_by: str, /) -> bool:
        """Return whether there is the table that this statement makes; refuse any other, and triggers on it."""
        ...

    def count(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        """Return how many rows a statement changed."""
        ...

    def stream(self, statement: str, /) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one statement as they are needed."""
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """Undo what the block has done if it is refused."""
        ...


def named(name: str) -> str:
    """Quote a name for use in a statement."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Return quoted names with commas between them."""
    return ", ".join(map(named, names))


def numbered(count: int) -> str:
    """Return as many parameters, with commas between them."""
    return ", ".join(f"${n + 1}" for n in range(count))


def all_of(conditions: Iterable[str]) -> str:
    """Join conditions by AND, in groups."""
    each = list(conditions)
    groups = (each[at : at + _GROUP] for at in range(0, len(each), _GROUP))
    return " AND ".join(f"({' AND '.join(group)})" for group in groups)
