"""Looks for the records of a span by the rows of a table, and refuses to call it whole if none can be a row."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from playhead.errors import Refused, Unavailable
from playhead.gaps.missing import MissingOffsets, inventory_of
from playhead.inventory import KeysOf
from playhead.json_objects import need_few_values
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.replay.assemble import Wiring
from playhead.replay.runner import RunJob
from playhead.replay.verify import comparing_job, findings_of
from playhead.source import Source, SourceFacts, rejecting
from playhead.target import Target
from playhead.task.slicer import Filter

_AT_ONCE = 100_000
_JOB = "gaps"
_FIRST, _MOST_FIELDS = 100, 12


class NothingLookedFor(Refused):
    """No record of the span can be a row, as the command understands records: nothing was compared."""

    def __init__(
        self, table: str, *, columns: Sequence[str], count: int, fields: Sequence[str] | None
    ) -> None:
        self.table, self.columns, self.count = table, tuple(columns), count
        hint = "the fields that --select makes need the names of columns, and values that fit them"
        if fields is not None:
            found = f"fields of the first records: {', '.join(fields)}; " if fields else ""
            example = f"value:{fields[0] if fields else 'FIELD'} AS {columns[0]}"
            hint = f"{found}--select gives fields the names of columns: --select '{example}'"
        super().__init__(
            f"none of the {count:,} records can be looked for in {table} by {', '.join(columns)}: their "
            "fields have other names than these columns, or values that do not fit",
            hint=hint,
        )


class RecordKey(NamedTuple):
    """What a record has in the key columns of a table."""

    topic: str
    partition: int
    offset: int
    number: int | None
    """Stands for the values: equal keys have equal numbers. None if there is no value in a column."""
    time_ms: int


@dataclass(frozen=True, slots=True)
class RowLookup:
    """Looks for records by the rows of a table."""

    ends: Wiring
    facts: SourceFacts
    run_job: RunJob
    slots: int
    table: str
    is_transformed: bool = False
    in_time: Filter = field(default_factory=Filter)
    """Filters records of the span by their own times."""
    first_stays: bool = False
    """Whether a replay that fills gaps would leave an older row from another partition."""

    def lacking(self, spans: Sequence[Slice], columns: Sequence[str]) -> MissingOffsets:
        """Read and decode the records of the spans, and look for a row of each in the database."""
        inventory = inventory_of(self.ends.target)
        target = inventory.known_by_columns(tuple(columns), first_stays=self.first_stays)
        findings = self._found(spans, target, self.in_time)
        runs = {
            Slice(each["slice"]["topic"], each["slice"]["partition"], start, end): count
            for each in findings
            for start, end, count in each["missing"]
        }
        unlike = sum(each["unlike"] for each in findings)
        looked_for = sum(each["expected"] for each in findings)
        notes = [_unlike(unlike, self.table)] if unlike else []
        elsewhere = sum(each["elsewhere"] for each in findings)
        notes += [_elsewhere(elsewhere, self.table)] if elsewhere else []
        counts = runs if self.is_transformed else None
        by = f"rows by {', '.join(columns)}"
        is_blind = unlike > 0 and not looked_for
        return MissingOffsets(sorted(runs), by, None, notes, counts, unlike if is_blind else 0)

    def keys(self, spans: Sequence[Slice], columns: Sequence[str], of: KeysOf) -> list[RecordKey]:
        """Read and decode the records or the tombstones of the spans, and return what they have in the columns.

        Records outside of the span by their own time are left out; of tombstones all count.
        """
        target = inventory_of(self.ends.target).known_by_columns(tuple(columns), of)
        in_time = self.in_time if of == "records" else Filter()
        return [
            RecordKey(each["slice"]["topic"], each["slice"]["partition"], *found)
            for each in self._found(spans, target, in_time)
            for found in each["keys"]
        ]

    def _found(
        self, spans: Sequence[Slice], target: Target, in_time: Filter
    ) -> list[Mapping[str, Any]]:
        """Return what such a target finds of each piece of the spans."""
        pieces = [piece for span in spans for piece in span.pieces(_AT_ONCE)]
        entries = [Entry(piece, 0, 0) for piece in pieces]
        ends = replace(self.ends, target=target)
        job = comparing_job(_JOB, ends, self.facts, entries, in_time, self.slots)
        findings = findings_of(self.run_job, job)
        _need_all(pieces, [Slice(**each["slice"]) for each in findings])
        return findings

    def refuse_blindness(
        self, found: MissingOffsets, spans: Sequence[Slice], columns: Sequence[str]
    ) -> None:
        """Refuse to call a target whole if no record could be looked for; tombstones have no row anyway."""
        if not found.blind:
            return
        values = _first_values(self.ends.source, spans)
        if any(value is not None for value in values):
            fields = None if self.is_transformed else _fields(values)
            raise NothingLookedFor(self.table, columns=columns, count=found.blind, fields=fields)


def _first_values(source: Source, spans: Sequence[Slice]) -> list[bytes | None]:
    """Return the values of the first records of each span."""
    values: list[bytes | None] = []
    with rejecting(source) as reader:
        for span in spans:
            records = next(iter(reader.read(span)), None)
            values += [] if records is None else records.values[:_FIRST]
    return values


def _fields(values: Sequence[bytes | None]) -> list[str]:
    """Return the plain names of the fields of values that are JSON objects, in order."""
    names: dict[str, None] = {}
    for value in values:
        with suppress(ValueError, RecursionError):
            document = json.loads(need_few_values((value or b"null").decode()))
            names |= dict.fromkeys(document) if isinstance(document, dict) else {}
    return [name for name in names if name.isidentifier()][:_MOST_FIELDS]


def _need_all(pieces: Sequence[Slice], looked_at: Sequence[Slice]) -> None:
    if left := sum(map(len, remaining(pieces, looked_at))):
        raise Unavailable(f"{left:,} offsets were not compared", hint="try again")


def _unlike(count: int, table: str) -> Note:
    text = (
        f"{count:,} records of the span cannot be looked for in {table}: tombstones, values that do not fit, "
        "or no value in the key"
    )
    return Note("unlike", f"{text}; they are not counted as missing")


def _elsewhere(count: int, table: str) -> Note:
    text = f"{count:,} records have no row in {table}, and no later record of their partition has replaced it; "
    more = (
        "rows of their keys are from other partitions or topics, or do not say where they are from"
    )
    return Note("elsewhere", text + more)


def met(in_log: Sequence[Slice], columns: Sequence[str]) -> Note:
    """Return the note that missing offsets were looked for by their rows."""
    count = sum(map(len, in_log))
    text = f"{count:,} offsets were not found; their records were then looked for by {', '.join(columns)}, and "
    return Note(
        "met", f"{text}only those without a row, and not left out on purpose, count", "info"
    )
