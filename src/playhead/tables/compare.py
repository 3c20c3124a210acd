"""Compares records with their rows, for a database that is asked for one row after another."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.record import Record
from playhead.tables.json_fields import Row
from playhead.tables.ledger import OtherReplays
from playhead.tables.sql_rows import SqlRows
from playhead.target import SliceComparison
from playhead.task.dead_letter_check import named_refused
from playhead.task.tally import Tally, digest_of


@dataclass(slots=True)
class Comparison:
    """Compares the records of one slice with their rows, where rows are only appended."""

    others: OtherReplays
    rows: SqlRows
    entry: Entry
    why_unknown: str = ""
    """Why the rows do not say of which record they are, if they do not."""
    tally: Tally = field(default_factory=Tally)
    missing: list[tuple[int, Row]] = field(default_factory=list)

    def findings(
        self,
        rows: Iterable[tuple[Record, Row]],
        extra_fields: ExtraFields,
        unreadable: Sequence[int] = (),
    ) -> SliceComparison:
        """Return the comparison of the slice; the unreadable records are refused already."""
        listed, excused = excuses(self.entry)
        refused = [*unreadable]
        for record, row in rows:
            try:
                if record.offset not in listed:
                    self._judge(record, row)
            except self.rows.refusals:
                refused.append(record.offset)
        self._count_extra()
        place, are_excused = self.entry.slice.place, len(self.missing) <= excused
        for offset, row in self.missing:
            if are_excused:
                self.tally.unknown += 1
                text = (
                    "no such row; some records of the slice were refused, or not kept by the table"
                )
                self.tally.note("unknown", place, offset, text)
            else:
                self.tally.different += 1
                self.tally.expected_sum += digest_of((offset, row))
                self.tally.note("missing", place, offset, "the table has no such row")
        return self.tally.comparison(self.entry.slice, extra_fields, tuple(refused))

    def _judge(self, record: Record, row: Row) -> None:
        tally, place = self.tally, self.entry.slice.place
        if self.why_unknown:
            tally.unknown += 1
            tally.note("unknown", place, record.offset, self.why_unknown)
            return
        stored = self.rows.held({name: row[name] for name in self.rows.table.place}, row)
        if not stored:
            self.missing.append((record.offset, row))
            return
        is_equal, *values = next((each for each in stored if each[0]), stored[0])
        kept = row if is_equal else dict(zip(row, values, strict=True))
        tally.found += 1
        tally.expected_sum += digest_of((record.offset, row))
        tally.found_sum += digest_of((record.offset, kept))
        if is_equal:
            tally.same += 1
        else:
            tally.different += 1
            tally.note("changed", place, record.offset, "the row has other values")

    def _count_extra(self) -> None:
        """Count rows that no record accounts for, unless other replays also wrote to this slice."""
        slice_ = self.entry.slice
        if not self.why_unknown and self.others.are_absent(slice_):
            for _ in range(self.rows.count_claims(slice_) - self.tally.found):
                self.tally.add_extra(slice_.place, None, "no record stands for a row")


def excuses(entry: Entry) -> tuple[set[int], int]:
    """Return the records that have no row because they were refused, and how many others may have none."""
    refused = entry.details.get("refused", ())
    if isinstance(refused, int):  # An earlier version only counted them.
        return set(), refused
    listed = named_refused(entry)
    unlisted = max(0, entry.skipped + entry.dead - len(listed))
    return listed, unlisted + int(entry.details.get("dropped", 0))
