"""Compares a span of a source with a target: which offsets are missing, and what the log says of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from playhead.config.context import Configuration
from playhead.endpoint import system_of
from playhead.gaps.by_ledger import by_ledger
from playhead.gaps.deleted_later import MAYBE_DELETED, Deleting, last_of_keys, without_deleted
from playhead.gaps.filling import fill_rules, filling, may_share_keys
from playhead.gaps.gap import Gap, Gaps, GracePeriod
from playhead.gaps.log_scan import seen
from playhead.gaps.log_start import (
    ExpiredRecords,
    LogStart,
    expired_by_ledger,
    expired_by_offsets,
    log_starts_inside,
    split_gone,
)
from playhead.gaps.lost_from_log import Committed, lost_from_log
from playhead.gaps.missing import (
    MissingOffsets,
    NoKeyColumns,
    by_offsets,
    columns_of,
    committed_before,
    inventory_of,
    way_of,
)
from playhead.gaps.row_lookup import RowLookup, met
from playhead.gaps.table_doubts import (
    facts_of_tables,
    not_reached,
    of_other_topics,
    of_present_topics,
    policed,
    refuse_hidden_rows,
    unkeyed,
)
from playhead.gaps.unstable import Unstable, unstable_gaps, unstable_of
from playhead.gaps.written_by import UNKNOWN, WrittenTable, writers, written_table
from playhead.ledger import remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.replay.assemble import Wiring, ends, expecting
from playhead.replay.engine import Engine
from playhead.replay.planner import Frozen, freeze
from playhead.replay.samples import where_the_records_are
from playhead.request import Request
from playhead.source import SourceFacts
from playhead.span import Resolved
from playhead.tables.columns import PLACE
from playhead.task.slicer import Filter

SETTLE_MS = 30_000


@dataclass(frozen=True, slots=True)
class GapQuery:
    """What to compare, and how."""

    request: Request
    """As for a replay: source, target and span, and how records become rows."""
    settle_ms: int = SETTLE_MS
    by: str | None = None
    time_column: str | None = None
    ledgers: tuple[str, ...] = ()
    is_quick: bool = False
    """Do not read the log: without times, and without knowing which offsets hold a record."""


@dataclass(slots=True)
class GapFinder:
    """Compares a span with frozen offsets, as often as needed."""

    question: GapQuery
    configuration: Configuration
    say: Callable[[str], None] = lambda _: None
    ends: Wiring = field(init=False)
    facts: SourceFacts = field(init=False)
    spans: tuple[Slice, ...] = field(init=False)
    """The part of the span that the log still has."""
    gone: tuple[Slice, ...] = field(init=False)
    """Named offsets before the start of the log."""
    begins_inside: tuple[LogStart, ...] = field(init=False)
    """Partitions whose log begins inside a span by time."""
    unstable: tuple[Unstable, ...] = field(init=False)
    """Offsets that may be of the span, behind a transaction that was open when they were frozen."""
    resolved: Resolved = field(init=False)
    looked: tuple[Note, ...] = field(init=False)
    """Notes on the records after the end of a span by time."""
    _way: str = field(init=False)
    _written: WrittenTable = field(init=False, default=UNKNOWN)
    _maybe_deleted: Sequence[Slice] = field(init=False, default=())
    """Missing records whose rows another program may have deleted."""
    left_out: tuple[Note, ...] = field(init=False, default=())
    """Notes on the missing records that the last `replay_of` leaves out."""
    _engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        request = self.question.request
        spec = request.spec
        self.ends = ends(request, self.configuration)
        self._engine = Engine(self.configuration, spec.transform if spec.is_transformed else None)
        source = self.ends.source
        self.facts = source.facts()
        if system_of(request.target_endpoint).kind == "table" and self.question.by != "ledger":
            request, self._written = written_table(self.ends.target, self.facts, request)
            self.question = replace(self.question, request=request)
            self.ends = ends(request, self.configuration)
        bounds = source.bounds()
        self.resolved = request.spec.span.resolve(time.time_ns())
        self.gone, held = split_gone(self.resolved, bounds)
        self.begins_inside = tuple(log_starts_inside(source, bounds, self.resolved))
        frozen = Frozen()
        if held is not None:
            frozen = freeze(source, bounds, held, request, self.facts.topics, is_least=True)
        self.looked = frozen.notes
        self.unstable = unstable_of(source, bounds, self.resolved, frozen)
        planned = (each.slice() for each in frozen.partitions)
        self.spans = tuple(each for each in planned if each is not None)
        if not (self.spans or self.resolved.offsets or str(self.resolved) == "start..end"):
            self.looked = (*self.looked, where_the_records_are(source, bounds))
        self._way = way_of(request, self.question.by, self._has_offsets)
        if self._way == "key":
            self._need_table()

    def find(self) -> Gaps:
        """Return what is missing now."""
        lacking, deleted = self._lacking(), self._deleted()
        settling = GracePeriod(time.time_ns() // 1_000_000, self.question.settle_ms)
        expired = [Gap(each, "expired") for each in lacking.slices if _is_inside(each, self.gone)]
        expired += deleted.gaps
        unstable, open_notes = unstable_gaps(self.ends.source, self.unstable, settling)
        doubtful, lost, doubts, begun = self._doubts(lacking)
        held = [each for each in self.left_out if each.code == MAYBE_DELETED]
        first = (*self._written.notes, *held, *deleted.notes, *open_notes, *doubts)
        left = [each for each in lacking.slices if not _is_inside(each, self.gone)]
        request = self.question.request
        common = {
            "source": request.source_endpoint.shown(),
            "target": request.target_endpoint.shown(),
            "spans": tuple(sorted((*self.gone, *deleted.spans, *self.spans))),
            "by": lacking.by,
            "duplicates": lacking.duplicates,
            "doubtful": doubtful,
            "lost": lost,
            "undecided": lacking.undecided,
        }
        if self.question.is_quick:
            found = sorted((*expired, *map(Gap, left), *unstable), key=_in_order)
            notes = (
                *first,
                *lacking.notes,
                *self.looked,
                *self._untimed(),
                *not_reached(begun, left),
            )
            return Gaps(**common, found=tuple(found), absent=None, notes=notes)  # type: ignore[arg-type]
        source, skips = expecting(self.ends.source, self.facts), self._skips_tombstones()
        told = seen(source, left, settling, self._in_time(), skips_tombstones=skips)
        gaps = _recounted(told.gaps, lacking.records) if lacking.records else told.gaps
        return Gaps(
            **common,  # type: ignore[arg-type]
            found=tuple(sorted((*expired, *gaps, *unstable), key=_in_order)),
            absent=sum(told.absent.values()),
            unexplained=told.unexplained_count(),
            notes=(
                *first,
                *lacking.notes,
                *self.looked,
                *told.notes,
                *told.absent_notes(),
                *self._committed(gaps, begun),
                *not_reached(begun, [each.slice for each in gaps if each.kind == "missing"]),
            ),
        )

    def _doubts(
        self, lacking: MissingOffsets
    ) -> tuple[int, int, Sequence[Note], Sequence[Committed]]:
        """Return how many offsets may be of another topic, and of how many the log lost the records, with notes
        on both and on what the rows of the table cannot tell; and what is known to be committed to the table."""
        source = self.ends.source
        if self._way == "ledger":
            lost, losses = lost_from_log(source, self.facts, self.spans, lacking.committed)
            return 0, lost, losses, lacking.committed
        facts, request = facts_of_tables(self.ends.target, self._topics()), self.question.request
        notes = policed(facts)
        if request.spec.table.key and lacking.by != "offsets":
            notes += unkeyed(facts, columns_of(request, self.question.time_column))
        target, by_key = self.ends.target, lacking.by != "offsets"
        committed = of_present_topics(target, facts, self.facts)
        there = remaining(self.spans, lacking.slices)
        doubtful, others = of_other_topics(
            target, facts, self.facts, there, committed, by_key=by_key
        )
        lost, losses = lost_from_log(source, self.facts, self.spans, committed)
        return doubtful, lost, [*notes, *others, *losses], committed

    def _in_time(self) -> Filter:
        return Filter(self.resolved.from_ms, self.resolved.to_ms)

    def _skips_tombstones(self) -> bool:
        """Whether tombstones have no row; a copy and a ledger have them as every record."""
        return self._way == "offsets" and self.question.request.spec.table.tombstones == "skip"

    def _untimed(self) -> Sequence[Note]:
        if self.resolved.from_ms is None and self.resolved.to_ms is None:
            return ()
        text = "record times were not read: offsets of records outside the span may be among them"
        return (Note("untimed", text, "info"),)

    def _committed(self, gaps: Sequence[Gap], begun: Sequence[Committed]) -> Sequence[Note]:
        if self._way == "ledger":
            return ()
        missing = [each for each in gaps if each.kind == "missing"]
        request = self.question.request
        return committed_before(request, self.ends, self.facts, missing, begun)

    def _deleted(self) -> ExpiredRecords:
        """What is in neither, of records that the log had before it was cut inside a span by time."""
        starts = self.begins_inside
        if not starts:
            return ExpiredRecords()
        if self._way == "offsets":
            return expired_by_offsets(inventory_of(self.ends.target), starts)
        before = [each.before for each in starts]
        if self._way == "key":
            return expired_by_ledger(starts, before)
        known = by_ledger(
            self.question.request, self.ends, self.facts, before, self.question.ledgers
        )
        return expired_by_ledger(starts, known.slices)

    def _lacking(self) -> MissingOffsets:
        request, question = self.question.request, self.question
        spans = sorted((*self.gone, *self.spans))
        if self._way == "ledger":
            return by_ledger(request, self.ends, self.facts, spans, question.ledgers)
        if self._way == "key":
            rows, columns = self._rows(), columns_of(request, question.time_column)
            found = self._without_deleted(rows, rows.lacking(self.spans, columns))
            rows.refuse_blindness(found, self.spans, columns)
            unseen = [_unseen(self.gone, found.by)] if self.gone else []
            slices = sorted((*self.gone, *found.slices))
            return replace(found, slices=slices, notes=[*found.notes, *unseen])
        found = by_offsets(self.ends.target, spans)
        in_log = [each for each in found.slices if not _is_inside(each, self.gone)]
        if not in_log or not (request.spec.table.key or request.spec.is_transformed):
            return found
        return self._looked_at_again(found, in_log)

    def _looked_at_again(self, found: MissingOffsets, in_log: Sequence[Slice]) -> MissingOffsets:
        """Compare missing offsets by row too: records may be left out on purpose, or another row may replace them."""
        request = self.question.request
        columns = (
            columns_of(request, self.question.time_column)
            if request.spec.table.key
            else self._place_columns()
        )
        rows = self._rows()
        again = self._without_deleted(rows, rows.lacking(in_log, columns))
        gone = [each for each in found.slices if _is_inside(each, self.gone)]
        by = f"{found.by}, then {again.by.removeprefix('rows by ')}"
        notes = [*found.notes, *again.notes, met(in_log, columns)]
        return MissingOffsets(
            sorted((*gone, *again.slices)), by, found.duplicates, notes, again.records
        )

    def _without_deleted(self, rows: RowLookup, found: MissingOffsets) -> MissingOffsets:
        table = self.question.request.spec.table
        if table.tombstones == "delete" and table.key:
            found, self._maybe_deleted = self._deleted_later(rows, found, is_known=True)
        return found

    def _deleted_later(
        self, rows: RowLookup, found: MissingOffsets, *, is_known: bool
    ) -> tuple[MissingOffsets, list[Slice]]:
        table = self.question.request.spec.table
        facts = facts_of_tables(self.ends.target, self._topics())
        committed = of_present_topics(self.ends.target, facts, self.facts)
        by_time = None if table.on_conflict is None else table.on_conflict == "newer"
        deleting = Deleting(by_time, is_known, self.question.request.where)
        return without_deleted(rows, found, table.key, deleting, self.spans, writers(committed))

    def _place_columns(self) -> tuple[str, ...]:
        return inventory_of(self.ends.target).columns_there(self._topics(), PLACE)

    def _rows(self) -> RowLookup:
        engine, request = self._engine, self.question.request
        if not engine.is_there:
            self.say("starting the engine to read and decode the records")
        engine.check()
        is_transformed = request.spec.is_transformed
        return RowLookup(
            self.ends,
            self.facts,
            engine.run_job,
            engine.slots,
            request.target_endpoint.name,
            is_transformed,
            self._in_time(),
            request.spec.table.on_conflict is None and self._written.first_stays,
        )

    def _need_table(self) -> None:
        """Ask the database before the engine starts, which takes seconds; without key columns, refuse."""
        target, key = self.ends.target, self.question.request.spec.table.key
        inventory_of(target).columns_there(self._topics(), key)
        if not key:
            known = facts_of_tables(target, self._topics()).keys.values()
            own = [each for keys in known for each in keys if not set(each) <= {*PLACE}]
            raise NoKeyColumns(tuple(own[0]) if own else ())

    def _has_offsets(self) -> bool:
        return inventory_of(self.ends.target).has_offsets(self._topics())

    def _topics(self) -> list[str]:
        return sorted(self.facts.topics)

    # --- filling them

    def replay_of(self, gaps: Gaps) -> Request:
        """Return the request that replays exactly the missing offsets; of several of a key, perhaps the last one."""
        refuse_hidden_rows(gaps)
        request = self.question.request
        missing = self._replayable(gaps)
        self._written.refuse_another_rule(request)
        rules = fill_rules(
            request.spec.table,
            self._inferred_rule,
            self._has_offsets,
            by_rows=self._way == "key" or gaps.by != "offsets",
            first_stays=self._written.first_stays,
        )
        key = request.key or self._written.key
        if rules.only_last and may_share_keys(key):
            last = last_of_keys(self._rows().keys(missing, key, "records"))
            if len(last) < sum(map(len, missing)):
                text = f"of the records with the same key, only the last one is replayed: {len(last):,} offsets"
                self.left_out = (*self.left_out, Note("only-last", text, "info"))
            missing = last
        return filling(request, rules, missing)

    def _replayable(self, gaps: Gaps) -> list[Slice]:
        """Return the missing offsets without those whose rows may have been deleted."""
        table, missing = self.question.request.spec.table, gaps.missing_slices()
        self.left_out = ()
        if table.tombstones is None and table.key and self._way != "ledger":
            # Not before, because the log may have much after the first missing record.
            self.say(
                "reading the tombstones after the missing records: --tombstones skip does without"
            )
            found = MissingOffsets([*missing], gaps.by)
            found, self._maybe_deleted = self._deleted_later(self._rows(), found, is_known=False)
            self.left_out = tuple(found.notes)
        return remaining(missing, self._maybe_deleted)

    def _inferred_rule(self) -> str | None:
        """Return the conflict rule under which missing records never replace later ones."""
        request = self.question.request
        if system_of(request.target_endpoint).kind != "table":
            return None
        return inventory_of(self.ends.target).safest_conflict_rule(
            self._topics(), request.spec.table.key
        )


def _unseen(gone: Sequence[Slice], by: str) -> Note:
    text = f"{sum(map(len, gone)):,} of the offsets are no longer in the log: without their records, a comparison "
    return Note(
        "unseen", f"{text}by {by.removeprefix('rows by ')} cannot say whether the target has them"
    )


def _is_inside(slice_: Slice, others: Sequence[Slice]) -> bool:
    return any(slice_.overlaps(other) for other in others)


def _recounted(gaps: Sequence[Gap], records: Mapping[Slice, int]) -> list[Gap]:
    """Count the records that a transform keeps, in gaps with all their offsets."""
    counts = {(each.topic, each.partition, each.from_offset): n for each, n in records.items()}
    ends = {(each.topic, each.partition, each.to_offset) for each in records}
    found = []
    for gap in gaps:
        at = gap.slice
        count = counts.get((at.topic, at.partition, at.from_offset))
        is_whole = (at.topic, at.partition, at.to_offset) in ends
        found.append(replace(gap, records=count) if count is not None and is_whole else gap)
    return found


def _in_order(gap: Gap) -> Slice:
    return gap.slice
