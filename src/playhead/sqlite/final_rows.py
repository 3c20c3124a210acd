"""Compares the rows that a whole replay should have left: for each key, the result of its records."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.record import Record, Slice
from playhead.source import TopicPartition
from playhead.sqlite.compare import SHOWN, Kind, digest, excuses, shown_checksum
from playhead.sqlite.ledger import Ledger
from playhead.sqlite.session import named
from playhead.sqlite.table import REFUSED, Row, Table
from playhead.target import Difference, SliceComparison

_OWN = ("topic", "partition", "last", "records", "slice", "refused")


@dataclass(slots=True)
class _Slice:
    entry: Entry
    extra_fields: ExtraFields
    rows: int
    met: int = 0
    """How many keys may still have a row that was there before."""
    refused: int = 0
    """How many records may still be without their row because they were refused."""
    refused_now: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Expected:
    """What one partition's records of one key should have left."""

    place: TopicPartition
    last: int
    """The offset of the record that stays."""
    records: int
    slice: int
    refused: int | None
    """A slice with a record of this key in which records were refused."""
    row: Row


@dataclass(slots=True)
class _Tally:
    """The counts of one partition."""

    same: int = 0
    different: int = 0
    unknown: int = 0
    extra: int = 0
    found: int = 0
    expected_sum: int = 0
    found_sum: int = 0
    differences: list[Difference] = field(default_factory=list)
    doubts: list[Difference] = field(default_factory=list)
    """The unknown ones, shown after the differences."""

    def note(self, difference: Difference) -> None:
        """Keep the first differences, to show them."""
        kept = self.doubts if difference.kind == "unknown" else self.differences
        if len(kept) < SHOWN:
            kept.append(difference)


class FinalRows:
    """Collects the slices of a replay into one table, those of a partition in offset order.

    A temporary table has one row for each key and partition, as the rule would have left it in an empty
    table. Between partitions there is no order: any of their rows of a key may be the last one.
    """

    def __init__(self, ledger: Ledger, table: Table, number: int) -> None:
        self._ledger, self._table, self._name = ledger, table, f"playhead_final_{number}"
        self._run = ledger.connection.execute
        self._slices: list[_Slice] = []
        self._tallies: dict[TopicPartition, _Tally] = {}
        self._keys = [f"k{n}" for n in range(len(table.key))]
        self._columns = {name: f"v{n}" for n, name in enumerate(table.columns)}
        self._names: set[frozenset[str]] = set()
        # Stands for a column that no record names, because NULL is a value.
        self._unnamed = uuid4().bytes
        place = f"{', '.join(self._keys)}, topic, partition"
        values = ", ".join(
            f"{name} DEFAULT x'{self._unnamed.hex()}'" for name in self._columns.values()
        )
        columns = f"{', '.join((*self._keys, *_OWN))}, {values}, PRIMARY KEY ({place})"
        self._run(f"CREATE TEMPORARY TABLE {self._name} ({columns}) WITHOUT ROWID")

    def add(
        self,
        entry: Entry,
        rows: Iterable[tuple[Record, Row]],
        extra_fields: ExtraFields,
        unreadable: Sequence[int] = (),
    ) -> None:
        """Add the records of a slice; the unreadable ones are refused already."""
        count, now = 0, [*unreadable]
        listed, excused = excuses(entry)
        for record, row in rows:
            if record.offset in listed:
                continue
            try:
                self._put(entry, record, row, excused)
                count += 1
            except REFUSED:
                now.append(record.offset)
        self._slices.append(_Slice(entry, extra_fields, count, 0, excused, tuple(now)))

    def findings(self) -> list[SliceComparison]:
        """Return the comparison of each slice; a partition's counts are with its last slice."""
        self._count_excuses()
        for key, expected in self._groups():
            self._judge(key, expected)
        self._count_extra()
        self._run(f"DROP TABLE {self._name}")
        last = {_place(each.entry.slice): each for each in self._slices}
        return [
            self._finding(each, is_last=last[_place(each.entry.slice)] is each)
            for each in self._slices
        ]

    def _finding(self, of: _Slice, *, is_last: bool) -> SliceComparison:
        slice_ = of.entry.slice
        tally = self._tallies.get(_place(slice_), _Tally()) if is_last else _Tally()
        return SliceComparison(
            slice_,
            tally.same + tally.different + tally.unknown,
            tally.found,
            shown_checksum(tally.expected_sum),
            shown_checksum(tally.found_sum),
            tuple((*tally.differences, *tally.doubts)[:SHOWN]),
            tally.different + tally.extra,
            tally.same,
            tally.unknown,
            extra_fields=of.extra_fields,
            refused=of.refused_now,
        )

    # --- what is expected

    def _stored_key(self, row: Row) -> Sequence[Any]:
        """Return the key as the table has it, because only SQLite knows which values are one key there."""
        key = {name: row[name] for name in self._table.key}
        stored = self._select(map(named, self._table.key), key)
        return stored[0] if stored else [*key.values()]

    def _put(self, entry: Entry, record: Record, row: Row, excused: int) -> None:
        slice_, key = len(self._slices), self._stored_key(row)
        refused = slice_ if excused else None
        own = dict(
            zip(_OWN, (*_place(entry.slice), record.offset, 1, slice_, refused), strict=True)
        )
        values = {self._columns[name]: value for name, value in row.items()}
        self._names.add(frozenset(row))
        given = dict(zip(self._keys, key, strict=True)) | own | values
        changes = ["records = records + 1", "refused = coalesce(excluded.refused, refused)"]
        if self._table.rules.on_conflict == "update":
            changes += [f"{name} = excluded.{name}" for name in ("last", "slice", *values)]
        self._run(
            f"INSERT INTO {self._name} ({', '.join(given)}) "  # noqa: S608 - names of our own
            f"VALUES ({', '.join('?' * len(given))}) "
            f"ON CONFLICT ({', '.join(self._keys)}, topic, partition) DO UPDATE SET {', '.join(changes)}",
            [*given.values()],
        )

    def _count_excuses(self) -> None:
        """Count the rows that were there before, of those that the ledger says were left alone.

        Records that the replay's own earlier ones explain need no such row.
        """
        if self._table.rules.on_conflict == "ignore":
            firsts = dict(self._run(f"SELECT slice, count(*) FROM {self._name} GROUP BY slice"))  # noqa: S608
            for number, each in enumerate(self._slices):
                own = each.rows - firsts.get(number, 0)
                each.met = max(0, int(each.entry.details.get("left_alone", 0)) - own)

    def _groups(self) -> Iterator[tuple[Sequence[Any], list[_Expected]]]:
        columns = [*self._keys, *_OWN, *self._columns.values()]
        order = ", ".join((*self._keys, "topic", "partition"))
        rows = self._run(f"SELECT {', '.join(columns)} FROM {self._name} ORDER BY {order}")  # noqa: S608
        count = len(self._keys)
        for key, of_key in itertools.groupby(rows, lambda row: row[:count]):
            yield key, [self._expected(*row[count:]) for row in of_key]

    def _expected(self, topic: str, partition: int, *rest: Any) -> _Expected:
        last, records, slice_, refused, *values = rest
        named_values = zip(self._columns, values, strict=True)
        row = {name: value for name, value in named_values if value != self._unnamed}
        return _Expected((topic, partition), last, records, slice_, refused, row)

    # --- what the table has

    def _judge(self, key: Sequence[Any], expected: list[_Expected]) -> None:
        """Judge the records of one key by the row that it has."""
        conditions = dict(zip(self._table.key, key, strict=True))
        first, held = expected[0], []
        for each in expected:
            all_equal = " AND ".join(f"{named(name)} COLLATE BINARY IS ?" for name in each.row)
            columns = [all_equal, *map(named, each.row)]
            held = self._select(columns, conditions, *each.row.values())
            if any(is_equal for is_equal, *_ in held):
                self._count(expected, each, held)
                return
        kind, text = self._difference(expected, self._claims(conditions))
        tally = self._tally(first.place)
        for each in expected:
            if kind == "unknown":
                self._tally(each.place).unknown += each.records
            else:
                self._tally(each.place).different += each.records
        if kind != "unknown":
            tally.expected_sum += digest((first.last, first.row))
            tally.found_sum += sum(digest((first.last, row[1:])) for row in held)
        tally.found += len(held)
        more = sum(each.records for each in expected) - 1
        text += f"; {more + 1:,} records have its key" if more else ""
        tally.note(Difference(kind, *first.place, first.last, text))

    def _count(self, expected: list[_Expected], kept: _Expected, held: list[Any]) -> None:
        """Count a key whose row is as expected, and rows beyond the one."""
        tally = self._tally(kept.place)
        tally.found += 1
        tally.expected_sum += digest((kept.last, kept.row))
        tally.found_sum += digest((kept.last, kept.row))
        for each in expected:
            self._tally(each.place).same += each.records
        for _ in held[1:]:
            self._add_extra(kept.place, kept.last, "its key has several rows")

    def _difference(self, expected: list[_Expected], claims: list[Any]) -> tuple[Kind, str]:
        """Return the kind and the text for a key whose row is of none of its records."""
        first = expected[0]
        for each in expected:
            if each.refused is not None and self._slices[each.refused].refused > 0:
                self._slices[each.refused].refused -= 1
                text = (
                    "not its row; some records of the slice were refused, or not kept by the table"
                )
                return "unknown", text
        if not claims:
            return "missing", "the table has no such row"
        claimed = dict(zip(self._table.place, claims[0], strict=True))
        offset = claimed["_offset"]
        is_own = any(self._is_of(claimed, each) for each in expected)
        if is_own and len(expected) > 1 and len(self._names) > 1:
            return "unknown", "several partitions have its key, and each names some of its columns"
        if not is_own and self._ledger.others_cover(claimed):
            return "unknown", f"its row is from offset {offset}, which another replay wrote"
        if self._slices[first.slice].met > 0:
            self._slices[first.slice].met -= 1
            return "unknown", "its row may have been there before: the ledger counts such rows"
        if is_own:
            return "changed", "the row has other values"
        return "changed", f"the row of this key is from offset {offset}"

    def _is_of(self, claimed: Row, expected: _Expected) -> bool:
        place = dict(zip(("_topic", "_partition"), expected.place, strict=True))
        wanted = place | {"_offset": expected.last}
        # As texts, because a column may store numbers as texts.
        return all(str(value) == str(wanted[name]) for name, value in claimed.items())

    def _claims(self, key: Row) -> list[Any]:
        return self._select(map(named, self._table.place), key)

    def _count_extra(self) -> None:
        """Count rows that claim this replay's offsets and have the key of none of its records.

        Where other replays wrote the same offsets, they may be theirs.
        """
        same = " AND ".join(
            f"e.{own} = +t.{named(name)}"
            for own, name in zip(self._keys, self._table.key, strict=True)
        )
        for span in self._spans():
            identity = {"_partition": span.partition, "_topic": span.topic}
            where = {name: identity[name] for name in self._table.place[:-1]}
            conditions = "".join(f" AND {named(name)} = ?" for name in where)
            [(count,)] = self._run(
                f"SELECT count(*) FROM {named(self._table.name)} t "  # noqa: S608 - quoted names
                f"WHERE _offset >= ? AND _offset < ?{conditions} "
                f"AND NOT EXISTS (SELECT 1 FROM {self._name} e WHERE {same})",
                (span.from_offset, span.to_offset, *where.values()),
            )
            for _ in range(count):
                self._add_extra(_place(span), None, "no record stands for a row")

    def _spans(self) -> list[Slice]:
        """Return the offsets that only this replay has written, neighbours joined."""
        spans: list[Slice] = []
        for slice_ in sorted(each.entry.slice for each in self._slices):
            if [*self._ledger.overlapping(slice_)] == [self._ledger.replay_id]:
                last = spans[-1] if spans else None
                if last and (_place(last), last.to_offset) == (_place(slice_), slice_.from_offset):
                    spans[-1] = replace(last, to_offset=slice_.to_offset)
                else:
                    spans.append(slice_)
        return spans

    def _add_extra(self, place: TopicPartition, offset: int | None, text: str) -> None:
        tally = self._tally(place)
        tally.found += 1
        tally.extra += 1
        tally.found_sum += digest((None, tally.found))
        tally.note(Difference("extra", *place, offset, text))

    def _tally(self, place: TopicPartition) -> _Tally:
        return self._tallies.setdefault(place, _Tally())

    def _select(self, columns: Iterable[str], key: Row, *values: Any) -> list[Any]:
        equal = " AND ".join(f"{named(name)} = ?" for name in key)
        statement = f"SELECT {', '.join(columns)} FROM {named(self._table.name)} WHERE {equal}"  # noqa: S608 - quoted names
        return self._run(statement, (*values, *key.values())).fetchall()


def _place(slice_: Slice) -> TopicPartition:
    return slice_.topic, slice_.partition
