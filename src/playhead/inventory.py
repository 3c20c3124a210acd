"""The contract of targets that know which records they have without a ledger: tables."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from playhead.ledger import Entry
from playhead.offset_bitmap import BitmapWords
from playhead.record import Slice
from playhead.source import TopicPartition
from playhead.target import Target
from playhead.terms import Terms, Whereto

KeysOf = Literal["records", "tombstones"]
"""Whose keys are asked for: those of records that can be rows, or those of tombstones."""


@dataclass(slots=True)
class HeldOffsets:
    """Which offsets of some spans a table has."""

    words: dict[TopicPartition, list[BitmapWords]] = field(default_factory=dict)
    rows: int = 0
    unplaced: list[str] = field(default_factory=list)
    """Tables with rows that do not say which offset they are."""
    untold: list[str] = field(default_factory=list)
    """Tables whose rows do not name their topic."""

    def count(self, topic: str) -> int:
        """Return how many offsets of a topic exist."""
        its = [words for place, words in self.words.items() if place[0] == topic]
        return sum(each.offsets() for words in its for each in words)

    @property
    def duplicates(self) -> int:
        """Rows beyond the first of each offset."""
        return self.rows - sum(each.offsets() for words in self.words.values() for each in words)


@runtime_checkable
class Inventory(Protocol):
    """A target that knows which records it has without a ledger: a table.

    Its writer can also compare records that no run of Playhead has written.
    """

    def held_offsets(
        self, spans: Sequence[Slice], /, *, until_ms: int | None = None
    ) -> HeldOffsets:
        """Return the spans' offsets that the tables have; refuse tables whose rows do not identify offsets.

        With `until_ms` only records older than that count; none, if the rows do not keep their times.
        """
        ...

    def has_offsets(self, topics: Sequence[str], /) -> bool:
        """Return whether the rows of all these topics' tables identify their offsets."""
        ...

    def columns_there(self, topics: Sequence[str], wanted: Sequence[str], /) -> tuple[str, ...]:
        """Return the wanted columns that exist in the tables of all these topics."""
        ...

    def safest_conflict_rule(self, topics: Sequence[str], key: Sequence[str], /) -> str | None:
        """Return the conflict rule under which a late record never replaces a later one; None to append."""
        ...

    def known_by_columns(
        self, columns: tuple[str, ...], tells: KeysOf | None = None, /, *, first_stays: bool = False
    ) -> Target:
        """Return a target whose `compare` only checks that a row has a record's values in these columns.

        With `first_stays`, for a table of an unknown rule, a row from another partition counts although it is
        older: the replay that fills gaps would leave it.
        With `tells`, it asks no row, and only tells what such records have in these columns.
        """
        ...


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the answers of an inventory rest on."""

    policed: Sequence[str] = ()
    """Tables whose row security may hide rows from the user."""
    begun: Mapping[str, Terms] | None = field(default_factory=dict)
    """By its id, each replay into these very tables; None if the ledger cannot be read."""
    keys: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)
    """For each table, the columns of its unique indexes."""
    untold: Mapping[str, Whereto] = field(default_factory=dict)
    """For each topic the table, if it has no column for the topic of a row."""


@runtime_checkable
class DescribesTables(Protocol):
    """An inventory that knows what its answers rest on."""

    def table_facts(self, topics: Collection[str], /) -> TableFacts: ...

    def entries_of(self, replay_ids: Collection[str], /) -> Mapping[str, Sequence[Entry]]:
        """Return what each of these replays has committed."""
        ...
