"""Compares a target with a span of the source, when no run of this machine says what was written where."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import not_

from playhead.absence import Blank, absent_between, total
from playhead.errors import Refused, UsageError
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.replay.assemble import Wiring, expecting
from playhead.replay.partition_work import partition_works
from playhead.replay.runner import RunJob
from playhead.replay.verify import (
    MOST_DIFFERENCES,
    PartitionCheck,
    Verification,
    checked,
    comparing_job,
    findings_of,
    slots_of,
)
from playhead.source import (
    LazyExplainer,
    Reader,
    Source,
    TopicPartition,
    read_directly,
    rejecting,
)
from playhead.target import Difference
from playhead.task.slicer import Filter

_AT_ONCE = 50_000
_BYTES = 8


@dataclass(slots=True)
class _Sum:
    """A count and a checksum that do not depend on the order or the offsets of records."""

    count: int = 0
    total: int = 0

    def add(self, records: Records) -> None:
        columns = (records.timestamps_ms, records.keys, records.values, records.headers)
        for row in zip(*columns, strict=True):
            digest = hashlib.blake2b(repr(row).encode(), digest_size=_BYTES).digest()
            self.total = (self.total + int.from_bytes(digest)) % (1 << 8 * _BYTES)
        self.count += len(records)

    @property
    def shown(self) -> str:
        return f"{self.total:0{2 * _BYTES}x}"


@dataclass(slots=True)
class _Side:
    """Reads the records of a span, and looks up why other offsets gave none: a record may have been lost there."""

    filter_: Filter
    reader: Reader
    explainer: LazyExplainer
    unexplained: int = 0
    unreadable: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    """Why records cannot be read whole; they are read, and not returned."""

    @classmethod
    @contextmanager
    def opened(cls, source: Source, filter_: Filter) -> Iterator["_Side"]:
        opened = rejecting(read_directly(source))
        with opened as reader, closing(LazyExplainer(source)) as explainer:
            yield cls(filter_, reader, explainer)

    def read(self, slice_: Slice) -> Iterator[Records]:
        for piece in slice_.pieces(_AT_ONCE):
            yield from self._read(piece)

    def _read(self, piece: Slice) -> Iterator[Records]:
        reached, blanks = piece.from_offset, list[Blank]()
        for records in self.reader.read(piece):
            if records.offsets:
                blanks += absent_between(reached, records.offsets)
                reached = records.offsets[-1] + 1
            verdicts = self.filter_.verdicts(records)
            if verdicts is None:
                yield self._whole(records)
            else:
                kept = [*compress(range(len(records)), map(not_, verdicts))]
                yield self._whole(records.pick(kept))
        blanks += [(reached, piece.to_offset)] if reached < piece.to_offset else []
        self.unexplained += total(self.explainer.explain(piece.place, blanks).unexplained)

    def _whole(self, records: Records) -> Records:
        if not records.undecoded:
            return records
        place = records.topic, records.partition
        self.unreadable.setdefault(place, {}).update(
            {at: records.undecoded[at] for at in records.offsets if at in records.undecoded}
        )
        return records.pick(
            [i for i, at in enumerate(records.offsets) if at not in records.undecoded]
        )


# --- tables: the target itself compares the rows


def against_table(plan: Plan, ends: Wiring, run_job: RunJob, slots: int) -> Verification:
    """Compare row by row, by key or by offset; extra rows are not looked for."""
    ends = replace(ends, source=read_directly(ends.source))
    filter_ = Filter(plan.from_ms, plan.to_ms)
    entries = [Entry(piece, 0, 0) for each in plan.slices() for piece in each.pieces(_AT_ONCE)]
    slots = slots_of(ends.target, entries, slots)
    job = comparing_job(plan.replay_id, ends, plan.source, entries, filter_, slots)
    return checked(plan, findings_of(run_job, job))


# --- archives: the same records at the same offsets


def against_archive(plan: Plan, source: Source, archive: Source) -> Verification:
    """Compare record by record, each at its own offset."""
    filter_ = Filter(plan.from_ms, plan.to_ms)
    pairs: dict[TopicPartition, _Pair] = {}
    held = archive.bounds()
    opened = _Side.opened(expecting(source, plan.source), filter_)
    with opened as side, _Side.opened(archive, filter_) as other:
        for each in plan.partitions:
            found = pairs.setdefault(each.place, _Pair())
            for piece in slice_.pieces(_AT_ONCE) if (slice_ := each.slice()) else ():
                needed = _by_offset(side, piece)
                there = _by_offset(other, _within(piece, held))
                unread = side.unreadable.pop(each.place, {})
                found.leave_out(unread, piece)
                there = {at: it for at, it in there.items() if at not in unread}
                found.compare(needed, there, piece)
    checks = tuple(found.check(place) for place, found in pairs.items())
    differences = [each for found in pairs.values() for each in found.differences]
    differences += [each for found in pairs.values() for each in found.unread]
    shown = [_as_document(each) for each in differences[:MOST_DIFFERENCES]]
    return Verification(plan.replay_id, checks, tuple(shown), side.unexplained)


@dataclass(slots=True)
class _Pair:
    expected: _Sum = field(default_factory=_Sum)
    found: _Sum = field(default_factory=_Sum)
    different: int = 0
    same: int = 0
    unknown: int = 0
    differences: list[Difference] = field(default_factory=list)
    unread: list[Difference] = field(default_factory=list)

    def leave_out(self, unread: Mapping[int, str], piece: Slice) -> None:
        """Count records of the source that cannot be compared."""
        self.unknown += len(unread)
        for offset, reason in sorted(unread.items())[: MOST_DIFFERENCES - len(self.unread)]:
            self.unread.append(Difference("unknown", *piece.place, offset, reason))

    def compare(
        self, needed: Mapping[int, Record], there: Mapping[int, Record], piece: Slice
    ) -> None:
        for each, sum_ in ((needed, self.expected), (there, self.found)):
            if each:
                sum_.add(Records.of(each.values()))
        for offset in sorted(needed.keys() | there.keys()):
            one, other = needed.get(offset), there.get(offset)
            if one == other:
                self.same += 1
                continue
            self.different += 1
            if len(self.differences) < MOST_DIFFERENCES:
                kind, text = ("changed", "differs from the source")
                if other is None:
                    kind, text = ("missing", "missing in the archive")
                elif one is None:
                    kind, text = ("extra", "in the archive, but not in the source")
                place = (piece.topic, piece.partition)
                self.differences.append(Difference(kind, *place, offset, text))  # type: ignore[arg-type]

    def check(self, place: TopicPartition) -> PartitionCheck:
        agree = self.expected == self.found and not self.different
        expected = self.expected.count + self.unknown
        counts = (expected, self.found.count, self.different)
        return PartitionCheck(*place, 1, *counts, agree, self.same, self.unknown)


def _by_offset(side: _Side, slice_: Slice | None) -> dict[int, Record]:
    if slice_ is None:
        return {}
    return {record.offset: record for records in side.read(slice_) for record in records}


def _within(slice_: Slice, held: Mapping[TopicPartition, object]) -> Slice | None:
    bounds = held.get((slice_.topic, slice_.partition))
    start = max(slice_.from_offset, getattr(bounds, "earliest", 0))
    end = min(slice_.to_offset, getattr(bounds, "stable_end", 0))
    return replace(slice_, from_offset=start, to_offset=end) if start < end else None


# --- copies: the same records at any offsets


def against_topics(
    plan: Plan, source: Source, copies: Source, names: Mapping[str, str]
) -> Verification:
    """Compare topic by topic: the same number and content of records, in any order and partition.

    `names` maps the source's topics to the copies'. A copy does not say which record comes from where, so a
    difference has no offset; the offset map of a run has it.
    """
    if plan.from_ms is None and plan.to_ms is None and _is_part(plan):
        raise UsageError(
            "offsets of the source do not apply to a copy",
            hint="give the span by time, or verify the run: playhead verify ID",
        )
    timed_by_broker = [n for n, it in copies.facts().topics.items() if it.sets_log_append_time]
    if timed_by_broker:
        raise Refused(
            f"{timed_by_broker[0]} sets the times of its records itself, so that they differ from the source's",
            hint="verify the run instead, which knows the offsets: playhead verify ID",
        )
    if most := [name for name, count in Counter(names.values()).items() if count > 1]:
        raise Refused(
            f"several topics would be compared with {most[0]}",
            hint="verify the run instead: playhead verify ID",
        )
    filter_ = Filter(plan.from_ms, plan.to_ms)
    expected, unread = _summed(expecting(source, plan.source), plan.slices(), filter_)
    found, of_copies = _summed(copies, _from_instant(copies, plan.from_ms), filter_)
    checks = [
        _check_topic(topic, expected.get(topic, _TopicSum()), found.get(name, _TopicSum()))
        for topic, name in sorted(names.items())
    ]
    return Verification(plan.replay_id, tuple(checks), (), unread + of_copies)


def _is_part(plan: Plan) -> bool:
    """Return whether the span names offsets; without a span, the plan contains all records."""
    return any(
        (each.from_offset, each.to_offset) != (each.earliest, each.stable_end)
        for each in plan.partitions
    )


def _from_instant(source: Source, from_ms: int | None) -> list[Slice]:
    first = source.offsets_at(from_ms) if from_ms is not None else {}
    bounds = sorted(source.bounds().items())
    spans = [(place, first.get(place, held.earliest), held.stable_end) for place, held in bounds]
    return [Slice(*place, start, end) for place, start, end in spans if start < end]


@dataclass(slots=True)
class _TopicSum(_Sum):
    unread: int = 0
    """Records that cannot be read whole, which are in no sum."""


def _summed(
    source: Source, slices: Sequence[Slice], filter_: Filter
) -> tuple[dict[str, _TopicSum], int]:
    """Return the sums of each topic, and how many offsets gave no record without a reason."""
    sums: dict[str, _TopicSum] = {}
    with _Side.opened(source, filter_) as side:
        for work in partition_works(slices):
            for slice_ in work:
                sum_ = sums.setdefault(slice_.topic, _TopicSum())
                for records in side.read(slice_):
                    sum_.add(records)
                    sum_.unread += len(side.unreadable.pop(slice_.place, {}))
        return sums, side.unexplained


def _check_topic(topic: str, expected: _TopicSum, found: _TopicSum) -> PartitionCheck:
    agree = (expected.count, expected.total) == (found.count, found.total)
    same = expected.count if agree else 0
    # Of the copies that cannot be read, this many are surely of no record of the source.
    strange = max(0, found.unread - expected.unread)
    different = max(abs(expected.count - found.count), 0 if agree else 1) + strange
    # At least this many differ; the sums do not show which.
    unknown = max(0, expected.count - same - different) + expected.unread
    counts = (expected.count + expected.unread, found.count + found.unread, different)
    return PartitionCheck(topic, None, 1, *counts, agree, same, unknown)


def _as_document(difference: Difference) -> Mapping[str, object]:
    return {name: getattr(difference, name) for name in Difference.__slots__}
