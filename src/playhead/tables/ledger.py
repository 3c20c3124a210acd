"""The ledger and the terms of replays, in two tables of the target's database."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from playhead.account import Account
from playhead.host.faults import abort_point
from playhead.ledger import Entry, LedgerUnreadable, entry_at
from playhead.note import Note
from playhead.record import Slice
from playhead.tables.columns import OFFSET, PARTITION, TOPIC
from playhead.tables.sql import RowSession, SqlSession
from playhead.target import AlreadyCommitted
from playhead.task.commit_order import refuse_wrong_order
from playhead.terms import OtherTerms, Terms, Whereto, agreed, terms_at, without_terms

_OF_PARTITION = "replay = $1 AND topic = $2 AND partition = CAST($3 AS bigint)"
# A database whose ledger was made by other words is refused: to change them needs a way for the older files.
_ENTRIES = """
CREATE TABLE IF NOT EXISTS playhead_entries (
    replay TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, to_offset INTEGER, entry TEXT,
    PRIMARY KEY (replay, topic, partition, from_offset))
"""
_TERMS = """
CREATE TABLE IF NOT EXISTS playhead_replays (replay TEXT PRIMARY KEY, terms TEXT NOT NULL)
"""


class LedgerTable(Protocol):
    """A table of Playhead's own; its text is its name."""

    @property
    def quoted(self) -> str: ...

    def exists(self) -> bool: ...

    def make(self) -> None:
        """Create it if it does not exist; concurrent calls are safe."""
        ...


@dataclass(frozen=True, slots=True)
class PlainTable:
    """One of the two, beside the rows; only the owner of the database can have made it."""

    session: RowSession
    quoted: str
    statement: str

    def __str__(self) -> str:
        return self.quoted

    def exists(self) -> bool:
        return self.session.has_table(self.quoted, self.statement)

    def make(self) -> None:
        self.session.run(self.statement)


def ledger_of(session: RowSession) -> PlainTable:
    return PlainTable(session, "playhead_entries", _ENTRIES)


def terms_of(session: RowSession) -> PlainTable:
    return PlainTable(session, "playhead_replays", _TERMS)


class SqlLedger:
    """What each replay has committed, through one session."""

    as_document: ClassVar[str] = "{}"
    """How a statement turns a parameter into a value of the column for entries."""

    def __init__(self, session: SqlSession, own: LedgerTable) -> None:
        self._session, self.own = session, own

    def has_entries(self, replay_id: str) -> bool:
        """Return whether a replay has committed anything."""
        if not self.own.exists():
            return False
        statement = f"SELECT 1 FROM {self.own.quoted} WHERE replay = $1 LIMIT 1"  # noqa: S608 - quoted
        return bool(self._session.run(statement, (replay_id,)))

    def entries(self, replay_id: str) -> list[Entry]:
        """Return the entries in order; none if the table does not exist."""
        if not self.own.exists():
            return []
        found = self._session.run(
            "SELECT topic, partition, from_offset, to_offset, CAST(entry AS text) "  # noqa: S608
            f"FROM {self.own.quoted} WHERE replay = $1",
            (replay_id,),
        )
        return sorted((self._entry(*row) for row in found), key=lambda entry: entry.slice)

    def admit(self, replay_id: str, account: Account, *, is_ordered: bool) -> None:
        """Lock this partition of the replay until the transaction ends, and check the slice.

        Refuses a slice that overlaps a committed one and, if the order matters, one that is not
        next. So it is for a live pipeline: a target that was restored lacks what it has committed before.
        """
        slice_ = account.slice
        self._lock(replay_id, slice_)
        if is_ordered or account.is_endless:
            last = self._last(replay_id, slice_)
            refuse_wrong_order(replay_id, slice_, follows=account.follows, last=last)
            return
        found = self._session.run(
            f"SELECT from_offset, to_offset FROM {self.own.quoted} WHERE {_OF_PARTITION} "  # noqa: S608
            "AND from_offset < $4 AND to_offset > $5 LIMIT 1",
            (replay_id, slice_.topic, slice_.partition, slice_.to_offset, slice_.from_offset),
        )
        if found:
            committed = self._slice(slice_, found[0])
            raise AlreadyCommitted(replay_id, found=slice_, committed=committed)

    def add(self, replay_id: str, entry: Entry) -> None:
        self._session.run(
            f"INSERT INTO {self.own.quoted} "  # noqa: S608 - quoted
            "(replay, topic, partition, from_offset, to_offset, entry) "
            f"VALUES ($1, $2, CAST($3 AS bigint), $4, $5, {self.as_document.format('$6')})",
            ledger_row(replay_id, entry),
        )

    def _entry(self, *row: Any) -> Entry:
        """Return the entry of a row; the columns decide what is admitted, so both must agree."""
        if not row:
            raise _misformed(self.own)
        *place, text = row
        entry, where = entry_at(f"table {self.own}", text), f"table {self.own}"
        slice_ = entry.slice
        if (slice_.topic, slice_.partition, slice_.from_offset, slice_.to_offset) != tuple(place):
            reason = f"the row of {place} has the entry of {slice_}"
            raise LedgerUnreadable(where, reason)
        return entry

    def _lock(self, replay_id: str, slice_: Slice) -> None:
        """Lock the partition of a slice, if a transaction does not lock the whole database."""

    def _last(self, replay_id: str, slice_: Slice) -> Slice | None:
        """Return the last slice of its partition; slices do not overlap, so no other one ends later."""
        found = self._session.run(
            f"SELECT from_offset, to_offset FROM {self.own.quoted} WHERE {_OF_PARTITION} "  # noqa: S608
            "ORDER BY from_offset DESC LIMIT 1",
            (replay_id, slice_.topic, slice_.partition),
        )
        return self._slice(slice_, found[0]) if found else None

    def _slice(self, other: Slice, row: tuple[Any, ...]) -> Slice:
        """Return the slice of a row with two offsets, in the partition of another slice."""
        if len(row) != 2 or not all(isinstance(each, int) for each in row):
            raise _misformed(self.own)
        return Slice(other.topic, other.partition, *row)


@dataclass(frozen=True, slots=True)
class OtherReplays:
    """What replays other than one have committed to the same database."""

    session: SqlSession
    own: LedgerTable
    replay_id: str

    def are_absent(self, slice_: Slice) -> bool:
        """Return whether only the one replay has committed offsets of a slice."""
        found = self.session.run(
            f"SELECT DISTINCT replay FROM {self.own.quoted} WHERE topic = $1 "  # noqa: S608 - quoted
            "AND partition = $2 AND from_offset < $3 AND to_offset > $4",
            (slice_.topic, slice_.partition, slice_.to_offset, slice_.from_offset),
        )
        return [*found] == [(self.replay_id,)]

    def beside(self, slice_: Slice) -> list[tuple[str, str]]:
        """Return the replays, the one among them, that have committed other topics at offsets of a slice."""
        found = self.session.run(
            f"SELECT DISTINCT replay, topic FROM {self.own.quoted} WHERE topic <> $1 "  # noqa: S608
            "AND partition = $2 AND from_offset < $3 AND to_offset > $4",
            (slice_.topic, slice_.partition, slice_.to_offset, slice_.from_offset),
        )
        if any(len(row) != 2 for row in found):
            raise _misformed(self.own)
        return [(str(replay), str(topic)) for replay, topic in found]

    def cover(self, claimed: Mapping[str, Any]) -> bool:
        """Return whether one of them has committed the offset that a row claims."""
        names = [name for name in (PARTITION, OFFSET, TOPIC) if name in claimed]
        topic = "AND topic = $4 " if TOPIC in names else ""
        found = self.session.run(
            f"SELECT 1 FROM {self.own.quoted} WHERE replay <> $1 AND partition = $2 "  # noqa: S608
            f"AND from_offset <= $3 AND to_offset > $3 {topic}LIMIT 1",
            (self.replay_id, *(claimed[name] for name in names)),
        )
        return bool(found)


def _misformed(own: LedgerTable) -> LedgerUnreadable:
    return LedgerUnreadable(f"table {own}", "a row has not the columns that its statement names")


def ledger_row(replay_id: str, entry: Entry) -> Sequence[object]:
    """Return the values for the columns of an entry."""
    slice_ = entry.slice
    place = slice_.topic, slice_.partition, slice_.from_offset, slice_.to_offset
    return (replay_id, *place, entry.as_json())


@dataclass(frozen=True, slots=True)
class SavedTerms:
    """The terms with which a replay begins or continues."""

    terms: Terms
    make: Callable[[], None] = lambda: None
    """Creates missing tables; it is not called for a replay that continues."""
    places: Callable[[Iterable[str]], dict[str, Whereto]] = lambda _: {}
    """Returns the places to which the records of source topics go now."""
    settle: Callable[[], None] = lambda: None
    """Called before the terms are written, to make the places known again."""


class SqlReplays:
    """The terms of each replay, written before its first commit, through one session."""

    as_document: ClassVar[str] = "{}"

    def __init__(self, session: SqlSession, ledger: SqlLedger, own: LedgerTable) -> None:
        self._session, self._ledger, self.own = session, ledger, own

    def get(self, replay_id: str) -> Terms | None:
        """Return the terms of a replay; None if there are none, or no such table."""
        if not self.own.exists():
            return None
        statement = f"SELECT CAST(terms AS text) FROM {self.own.quoted} WHERE replay = $1"  # noqa: S608
        found = self._session.run(statement, (replay_id,))
        if found and not found[0]:
            raise _misformed(self.own)
        return terms_at(replay_id, str(self.own), found[0][0]) if found else None

    def agree(self, replay_id: str, begun: SavedTerms) -> Sequence[Note]:
        """Write the terms and create tables in one transaction; or refuse different terms."""
        with self._session.transaction():
            self._lock()
            kept = self.get(replay_id)
            is_old = kept is None and self._ledger.has_entries(replay_id)
            if kept is not None:
                agreed(replay_id, kept, _now(begun, kept.places))
            if is_old:
                _refuse_gone(replay_id, _now(begun, begun.terms.topics))
            elif kept is None or kept.is_endless:
                begun.make()
            abort_point("tables.terms_looked")
            begun.settle()
            self._keep(replay_id, kept, _now(begun, begun.terms.topics))
            abort_point("tables.terms_written")
        abort_point("tables.terms_committed")
        return (without_terms(replay_id),) if is_old else ()

    def _lock(self) -> None:
        """Let no other session agree on terms meanwhile, if a transaction does not lock the database."""

    def _keep(self, replay_id: str, kept: Terms | None, wanted: Terms) -> None:
        table, whole = self.own.quoted, agreed(replay_id, kept, wanted)
        terms = self.as_document.format("$2")
        statement = f"UPDATE {table} SET terms = {terms} WHERE replay = $1"  # noqa: S608
        if kept is None:
            statement = f"INSERT INTO {table} (replay, terms) VALUES ($1, {terms})"  # noqa: S608
        if whole != kept:
            self._session.run(statement, (replay_id, whole.as_json()))


def _now(begun: SavedTerms, topics: Iterable[str]) -> Terms:
    """Return the terms with the present places of some topics."""
    return replace(begun.terms, places=begun.places(topics))


def _refuse_gone(replay_id: str, wanted: Terms) -> None:
    gone = [each.name for each in wanted.places.values() if not each.id]
    if gone:
        told = [f"the ledger has entries, and {name} is gone" for name in gone]
        raise OtherTerms(replay_id, differences=told, is_endless=wanted.is_endless)
