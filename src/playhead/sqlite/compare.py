"""Holds a slice of the source against the rows that it should have left."""

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

Kind = Literal["extra", "missing", "changed", "unknown"]
_SHOWN = 20


@dataclass(slots=True)
class Comparison:
    """Of one slice. SQLite itself says whether a value is the same, as it may store it in another type."""

    ledger: Ledger
    table: Table
    entry: Entry
    differences: list[Difference] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)
    found: list[Any] = field(default_factory=list)
    missing: list[tuple[int, Row]] = field(default_factory=list)
    same: int = 0

    def findings(self, rows: Iterable[tuple[Record, Row]]) -> SliceComparison:
        for record, row in rows:
            self._judge(record, row)
        self._count_extra()
        if len(self.missing) <= int(self.entry.details.get("refused", 0)):
            for offset, _ in self.missing:
                self._differ(
                    "unknown", offset, "no such row; some were refused when they were written"
                )
        else:
            self.expected += self.missing
            for offset, _ in self.missing:
                self._differ("missing", offset, "the table has no such row")
        unknown = sum(each.kind == "unknown" for each in self.differences)
        return SliceComparison(
            self.entry.slice,
            len(self.expected) + unknown,
            len(self.found),
            _checksum(self.expected),
            _checksum(self.found),
            tuple(self.differences[:_SHOWN]),
            len(self.differences) - unknown,
            self.same,
            unknown,
        )

    def _judge(self, record: Record, row: Row) -> None:
        if not self.table.place:
            self._differ("unknown", record.offset, "the table has no _partition and _offset")
            return
        alike = " AND ".join(f"{named(name)} IS ?" for name in row)
        its = {name: row[name] for name in self.table.place}
        try:
            found = self._select([alike, *map(named, row)], its, *row.values())
        except REFUSED:
            return  # as when it was to be written
        if found:
            is_same, *values = next((each for each in found if each[0]), found[0])
            self.same += is_same
            self.expected.append((record.offset, row))
            kept = row if is_same else dict(zip(row, values, strict=True))
            self.found.append((record.offset, kept))
            if not is_same:
                self._differ("changed", record.offset, "the row has other values")
        elif self.table.rules.on_conflict in ("ignore", "update"):
            self._judge_by_key(record, row)
        else:
            self.missing.append((record.offset, row))

    def _judge_by_key(self, record: Record, row: Row) -> None:
        """Of several records with one key the rule keeps the first, or the last of a partition."""
        *partition, offset = self.table.place
        key = {name: row.get(name) for name in self.table.key}
        if not (found := self._select([offset, *partition], key)):
            self.missing.append((record.offset, row))
        elif found[0][1:] != tuple(row[name] for name in partition):
            self._differ("unknown", record.offset, "another partition's record has its key")
        elif (found[0][0] > record.offset) != (self.table.rules.on_conflict == "update"):
            self.expected.append((record.offset, row))
            self._differ("changed", record.offset, f"offset {found[0][0]} has its row")

    def _count_extra(self) -> None:
        """Rows that no record stands for; where several replays wrote, nobody can say whose they are."""
        slice_ = self.entry.slice
        if self.table.place and [*self.ledger.overlapping(slice_)] == [self.ledger.replay_id]:
            its = {"_partition": slice_.partition, "_topic": slice_.topic}
            inside = f"_offset >= {slice_.from_offset} AND _offset < {slice_.to_offset}"
            where = {name: its[name] for name in self.table.place[:-1]}
            [(count,)] = self._select([f"count(*) FILTER (WHERE {inside})"], where)
            for number in range(count - len(self.found)):
                self._differ("extra", None, "no record stands for a row")
                self.found.append((None, number))

    def _differ(self, kind: Kind, offset: int | None, text: str) -> None:
        place = self.entry.slice.topic, self.entry.slice.partition, offset
        self.differences.append(Difference(kind, *place, text))

    def _select(self, wanted: Iterable[str], where: Row, *values: Any) -> list[Any]:
        its = " AND ".join(f"{named(name)} = ?" for name in where)
        statement = f"SELECT {', '.join(wanted)} FROM {named(self.table.name)} WHERE {its}"  # noqa: S608 - quoted names
        run = self.ledger.connection.execute
        return run(statement, (*values, *where.values())).fetchall()


def _checksum(rows: list[Any]) -> str:
    digests = (hashlib.blake2b(repr(row).encode(), digest_size=8).digest() for row in rows)
    return f"{sum(map(int.from_bytes, digests)) % 2**64:016x}"
