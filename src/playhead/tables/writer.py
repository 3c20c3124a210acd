"""The part of a writer of rows that is the same for every database: details of an entry, and comparisons."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from playhead.account import Account, ErrorRule
from playhead.extra_fields import ExtraFields
from playhead.ledger import MOST_REFUSED, Entry
from playhead.records import Records
from playhead.tables.compare import ComparedRows, Comparison, RowLedger
from playhead.tables.final_rows import FinalRows
from playhead.tables.row_table import RowTable, WrittenRow
from playhead.target import SliceComparison, Writer
from playhead.written_rows import columns_written

T = TypeVar("T", bound=RowTable)


class RowWriter(Writer, Generic[T]):
    """Writes through one connection.

    `look_up` returns a topic's table as it is now, and `rows_of` its rows.
    """

    def __init__(
        self,
        ledger: RowLedger,
        look_up: Callable[[str], T],
        rows_of: Callable[[T], ComparedRows],
    ) -> None:
        self._of_replay, self._look_up, self._rows_of = ledger, look_up, rows_of
        self._finals: dict[str, FinalRows] = {}

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison | None:
        table = self._look_up(entry.slice.topic)
        account = Account(entry.slice, ErrorRule("skip"))
        rows = [*table.rows(account, records)]
        refused = [*account.refused_offsets]
        extra_fields = ExtraFields.counted(names for *_, names in rows)
        wanted = ((record, row) for record, row, _ in rows if row)
        if not table.keeps_one_of_a_key:
            comparison = Comparison(self._of_replay, self._rows_of(table), entry)
            return comparison.findings(wanted, extra_fields, refused)
        if table.name not in self._finals:
            rows_there, number = self._rows_of(table), len(self._finals)
            self._finals[table.name] = FinalRows(self._of_replay, rows_there, number)
        self._finals[table.name].add(entry, wanted, extra_fields, refused)
        return None

    def conclude(self) -> Sequence[SliceComparison]:
        finals, self._finals = self._finals, {}
        return [finding for each in finals.values() for finding in each.findings()]


def kept_of(account: Account, rows: Iterable[WrittenRow]) -> list[WrittenRow]:
    """Return the rows of the records that were not refused."""
    refused = account.refused_offsets
    return [row for row in rows if row[0].offset not in refused]


def details_of(
    table: RowTable, account: Account, kept: Sequence[WrittenRow], counts: Mapping[str, int]
) -> dict[str, Any]:
    """Return the details of an entry: counts other than 0, refused records, extra fields and filled columns."""
    listed = {"refused": sorted(account.refused_offsets)[:MOST_REFUSED]}
    found = {name: each for name, each in {**counts, **listed}.items() if each}
    extra = ExtraFields.counted(names for *_, names in kept)
    filled = sorted({name for _, row, _ in kept for name in row})
    columns = columns_written({name: table.there[name] for name in filled})
    return found | extra.as_details() | columns
