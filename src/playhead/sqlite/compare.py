"""Compares a slice of the source with the rows that it should have appended."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from playhead.ledger import Entry
from playhead.record import Record
from playhead.sqlite.ledger import Ledger
from playhead.sqlite.session import named
from playhead.sqlite.table import REFUSED, Row, Table
from playhead.target import Difference, SliceComparison
from playhead.task.dead_letter_check import named_refused

Kind = Literal["extra", "missing", "changed", "unknown"]
SHOWN = 20


@dataclass(slots=True)
class Comparison:
    """Compares the records of one slice with their rows.

    SQLite decides whether two values are equal, because it may store a value in another type. Texts are
    compared by their bytes, whatever the collation of their column.
    """

    ledger: Ledger
    table: Table
    entry: Entry
    differences: list[Difference] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)
    found: list[Any] = field(default_factory=list)
    missing: list[tuple[int, Row]] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    same: int = 0

    def findings(self, rows: Iterable[tuple[Record, Row]]) -> SliceComparison:
        listed, excused = excuses(self.entry)
        for record, row in rows:
            if record.offset not in listed:
                self._judge(record, row)
        self._count_extra()
        if len(self.missing) <= excused:
            for offset, _ in self.missing:
                self._differ(
                    "unknown",
                    offset,
                    "no such row; some records of the slice were refused, or not kept by the table",
                )
        else:
            self.expected += self.missing
            for offset, _ in self.missing:
                self._differ("missing", offset, "the table has no such row")
        unknown = sum(difference.kind == "unknown" for difference in self.differences)
        return SliceComparison(
            self.entry.slice,
            len(self.expected) + unknown,
            len(self.found),
            _checksum(self.expected),
            _checksum(self.found),
            tuple(self.differences[:SHOWN]),
            len(self.differences) - unknown,
            self.same,
            unknown,
            refused=tuple(self.refused),
        )

    def _judge(self, record: Record, row: Row) -> None:
        if not self.table.place:
            self._differ("unknown", record.offset, "the table has no _partition and _offset")
            return
        all_equal = " AND ".join(f"{named(name)} COLLATE BINARY IS ?" for name in row)
        identity = {name: row[name] for name in self.table.place}
        try:
            stored = self._select([all_equal, *map(named, row)], identity, *row.values())
        except REFUSED:
            self.refused.append(record.offset)
            return
        if stored:
            is_equal, *values = next((each for each in stored if each[0]), stored[0])
            self.same += is_equal
            self.expected.append((record.offset, row))
            kept = row if is_equal else dict(zip(row, values, strict=True))
            self.found.append((record.offset, kept))
            if not is_equal:
                self._differ("changed", record.offset, "the row has other values")
        else:
            self.missing.append((record.offset, row))

    def _count_extra(self) -> None:
        """Count rows that no record accounts for, unless other replays also wrote to this slice."""
        slice_ = self.entry.slice
        if self.table.place and [*self.ledger.overlapping(slice_)] == [self.ledger.replay_id]:
            identity = {"_partition": slice_.partition, "_topic": slice_.topic}
            inside = f"_offset >= {slice_.from_offset} AND _offset < {slice_.to_offset}"
            where = {name: identity[name] for name in self.table.place[:-1]}
            [(count,)] = self._select([f"count(*) FILTER (WHERE {inside})"], where)
            for number in range(count - len(self.found)):
                self._differ("extra", None, "no record stands for a row")
                self.found.append((None, number))

    def _differ(self, kind: Kind, offset: int | None, text: str) -> None:
        position = self.entry.slice.topic, self.entry.slice.partition, offset
        self.differences.append(Difference(kind, *position, text))

    def _select(self, columns: Iterable[str], conditions: Row, *values: Any) -> list[Any]:
        comparisons = " AND ".join(f"{named(name)} = ?" for name in conditions)
        statement = f"SELECT {', '.join(columns)} FROM {named(self.table.name)} WHERE {comparisons}"  # noqa: S608 - quoted names
        execute = self.ledger.connection.execute
        return execute(statement, (*values, *conditions.values())).fetchall()


def excuses(entry: Entry) -> tuple[set[int], int]:
    """Return the records that have no row because they were refused, and how many others may have none."""
    refused = entry.details.get("refused", ())
    if isinstance(refused, int):  # An earlier version only counted them.
        return set(), refused
    listed = named_refused(entry)
    unlisted = max(0, entry.skipped + entry.dead - len(listed))
    return listed, unlisted + int(entry.details.get("dropped", 0))


def digest(row: Any) -> int:
    """Return a number for one row; the sum of all is a checksum that does not depend on their order."""
    return int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest())


def shown_checksum(total: int) -> str:
    """Return a sum of digests as text."""
    return f"{total % 2**64:016x}"


def _checksum(rows: list[Any]) -> str:
    return shown_checksum(sum(map(digest, rows)))
