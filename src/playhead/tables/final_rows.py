"""Compares the rows that a whole replay should have left: for each key, the result of its records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.record import Record, joined_spans
from playhead.source import TopicPartition
from playhead.tables.columns import OFFSET, PARTITION, TOPIC
from playhead.tables.compare import excuses
from playhead.tables.json_fields import Row
from playhead.tables.ledger import OtherReplays
from playhead.tables.sql_rows import ExpectedRow, SqlRows
from playhead.target import DifferenceKind, SliceComparison
from playhead.task.tally import Tally, digest_of


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
    is_shared: bool = False
    """Whether rows that claim its offsets may be of other replays' topics."""


class FinalRows:
    """Collects the slices of a replay into one table, those of a partition in offset order.

    Between partitions there is no order: any of their rows of a key may be the last one.
    """

    def __init__(self, others: OtherReplays, rows: SqlRows, number: int) -> None:
        self._others, self._rows, self._table = others, rows, rows.table
        rows.begin(number)
        self._slices: list[_Slice] = []
        self._tallies: dict[TopicPartition, Tally] = {}
        self._names: set[frozenset[str]] = set()

    def add(
        self,
        entry: Entry,
        rows: Iterable[tuple[Record, Row]],
        extra_fields: ExtraFields,
        unreadable: Sequence[int] = (),
        *,
        is_shared: bool = False,
    ) -> None:
        """Add the records of a slice; the unreadable ones are refused already."""
        count, now, number = 0, [*unreadable], len(self._slices)
        listed, excused = excuses(entry)
        refused = number if excused else None
        for record, row in rows:
            if record.offset in listed:
                continue
            try:
                place = entry.slice.place
                self._rows.put(ExpectedRow(place, record.offset, 1, number, refused, row))
                self._names.add(frozenset(row))
                count += 1
            except self._rows.refusals:
                now.append(record.offset)
        self._slices.append(_Slice(entry, extra_fields, count, 0, excused, tuple(now), is_shared))

    def findings(self) -> list[SliceComparison]:
        """Return the comparison of each slice; a partition's counts are with its last slice."""
        self._count_excuses()
        for key, expected in self._rows.by_key():
            self._judge(key, expected)
        self._count_extra()
        self._rows.drop()
        last = {each.entry.slice.place: each for each in self._slices}
        found = []
        for each in self._slices:
            slice_ = each.entry.slice
            tally = self._tally(slice_.place) if last[slice_.place] is each else Tally()
            found.append(tally.comparison(slice_, each.extra_fields, each.refused_now))
        return found

    def _count_excuses(self) -> None:
        """Count the rows that were there before, of those that the ledger says were left alone.

        Records that the replay's own earlier ones explain need no such row.
        """
        if self._table.rules.on_conflict == "ignore":
            firsts = self._rows.firsts()
            for number, each in enumerate(self._slices):
                own = each.rows - firsts.get(number, 0)
                each.met = max(0, int(each.entry.details.get("left_alone", 0)) - own)

    def _judge(self, key: Row, expected: list[ExpectedRow]) -> None:
        """Judge the records of one key by the row that it has."""
        first, held = expected[0], list[Sequence[Any]]()
        for each in expected:
            held = [*self._rows.held(key, each.row)]
            if any(is_equal for is_equal, *_ in held) and self._agree(key, expected, each):
                self._count(expected, each, len(held) - 1)
                return
        kind, text = self._difference(expected, self._rows.claims(key))
        tally = self._tally(first.place)
        for each in expected:
            if kind == "unknown":
                self._tally(each.place).unknown += each.records
            else:
                self._tally(each.place).different += each.records
        if kind != "unknown":
            tally.expected_sum += digest_of((first.last, first.row))
            tally.found_sum += sum(digest_of((first.last, row[1:])) for row in held)
        tally.found += len(held)
        more = sum(each.records for each in expected) - 1
        text += f"; {more + 1:,} records have its key" if more else ""
        tally.note(kind, first.place, first.last, text)

    def _agree(self, key: Row, expected: list[ExpectedRow], kept: ExpectedRow) -> bool:
        """Return whether the row has what some other partition says of each column that `kept` does not name."""
        if self._table.rules.on_conflict != "update":
            return True
        values: dict[str, list[Any]] = {}
        for each in expected:
            for name in each.row.keys() - kept.row.keys():
                values.setdefault(name, []).append(each.row[name])
        return all(
            any(is_equal for v in each for is_equal, *_ in self._rows.held(key, {name: v}))
            for name, each in values.items()
        )

    def _count(self, expected: list[ExpectedRow], kept: ExpectedRow, more: int) -> None:
        """Count a key whose row is as expected, and rows beyond the one."""
        tally = self._tally(kept.place)
        tally.found += 1
        tally.expected_sum += digest_of((kept.last, kept.row))
        tally.found_sum += digest_of((kept.last, kept.row))
        for each in expected:
            self._tally(each.place).same += each.records
        for _ in range(more):
            tally.add_extra(kept.place, kept.last, "its key has several rows")

    def _difference(
        self, expected: list[ExpectedRow], claims: Sequence[Sequence[Any]]
    ) -> tuple[DifferenceKind, str]:
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
        offset = claimed[OFFSET]
        is_own = any(_is_of(claimed, each) for each in expected)
        if is_own and len(expected) > 1 and len(self._names) > 1:
            return "unknown", "several partitions have its key, and each names some of its columns"
        if not is_own and self._others.cover(claimed):
            return "unknown", f"its row is from offset {offset}, which another replay wrote"
        if self._slices[first.slice].met > 0:
            self._slices[first.slice].met -= 1
            return "unknown", "its row may have been there before: the ledger counts such rows"
        if is_own:
            return "changed", "the row has other values"
        return "changed", f"the row of this key is from offset {offset}"

    def _count_extra(self) -> None:
        """Count rows that claim this replay's offsets and have the key of none of its records.

        Where other replays wrote the same offsets, they may be theirs.
        """
        slices = [each.entry.slice for each in self._slices if not each.is_shared]
        for span in joined_spans(filter(self._others.are_absent, slices)):
            for _ in range(self._rows.count_claims(span)):
                self._tally(span.place).add_extra(span.place, None, "no record stands for a row")

    def _tally(self, place: TopicPartition) -> Tally:
        return self._tallies.setdefault(place, Tally())


def _is_of(claimed: Row, expected: ExpectedRow) -> bool:
    place = dict(zip((TOPIC, PARTITION), expected.place, strict=True))
    wanted = place | {OFFSET: expected.last}
    # As texts, because a column may store numbers as texts.
    return all(str(value) == str(wanted[name]) for name, value in claimed.items())
