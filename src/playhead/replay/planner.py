"""Makes a plan: freezes the offsets, inspects both ends, and collects notes."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from playhead.decoding import Kinds
from playhead.endpoint import system_of
from playhead.errors import Refused, UsageError
from playhead.note import Note
from playhead.pace import Pace, horizon_of
from playhead.plan import Estimate, PartitionPlan, Plan
from playhead.record import TimestampType
from playhead.records import Records
from playhead.replay import samples as sampling
from playhead.replay.assemble import Wiring
from playhead.replay.decode import Sampled, readable, sampled
from playhead.replay.estimate import LEAST_RECORDS
from playhead.replay.plan_notes import expired, future, timestamps, unstable
from playhead.request import Request
from playhead.source import Bounds, HasTransactions, Source, SourceFacts, TopicFacts, TopicPartition
from playhead.span import OffsetSpan, Resolved
from playhead.target import Inspection, InspectRequest
from playhead.task.slicer import Filter
from playhead.time_span import OPEN_TRANSACTION, time_span

_GUESSED_RATE = 100_000
_UNREAD = "have no fields that can be selected"
_MOST_SHOWN, _MOST_ITEMS, _DEEPEST_SHOWN = 2_000, 100, 20

Transformed = Callable[[Sequence[Records]], Sequence[Records]]


class NothingThere(UsageError):
    """The span names offsets or partitions that the source does not have."""


@dataclass(frozen=True, slots=True)
class Planner:
    """What planning needs beside the request; `now_ns` is the run's only reading of the clock."""

    request: Request
    ends: Wiring
    now_ns: int
    transformed: Transformed | None = None
    """Applies the transform to samples; None without a transform."""
    known_rate: float | None = None
    """Records per second of an earlier run of this kind on this machine."""

    def plan(self, replay_id: str | None = None) -> Plan:
        """Decide everything; write nothing."""
        source = self.ends.source
        bounds = source.bounds()
        facts = source.facts()
        resolved = self.request.spec.span.resolve(self.now_ns)
        frozen = freeze(source, bounds, resolved, self.request, facts.topics)
        partitions = frozen.partitions
        samples = sampling.samples(source, partitions, resolved)
        decoded = sampled(samples, self.ends.decoding, self.request.decode)
        arriving, unread = readable(self.arriving(decoded.records), _UNREAD)
        kinds = {} if self.request.spec.transform.select else decoded.kinds
        look = self._look(facts, bounds, arriving, kinds)
        wider = _Wider(self, look, partitions, resolved, samples)
        try:
            inspection = self.ends.target.inspect(replace(look, more=wider))
        except Refused as exc:
            if not samples:  # Often this is the reason: no columns can be inferred from nothing.
                where = sampling.where_the_records_are(source, bounds).text
                exc.hint = "; ".join(filter(None, (where, exc.hint)))
            raise
        if inspection.identity == facts.identity:
            _refuse_same_topic(self.request, partitions)
        dead_letters = self.ends.dead_letters
        is_empty = not samples and not resolved.offsets and str(resolved) != "start..end"
        notes = (
            *([sampling.where_the_records_are(source, bounds)] if is_empty else ()),
            *timestamps(facts, samples, resolved),
            *expired(partitions, samples, resolved),
            *frozen.notes,
            *self._future(partitions, resolved),
            *unstable(open_at_the_end(source, partitions, bounds), resolved),
            *decoded.notes,
            *unread,
            # The plan itself names the open transactions that matter.
            *(note for note in facts.notes if note.code != OPEN_TRANSACTION),
            *inspection.notes,
            *(dead_letters.inspect() if dead_letters is not None else ()),
        )
        return Plan(
            replay_id or secrets.token_hex(4),
            self.request,
            self.now_ns // 1_000_000,
            resolved.from_ms,
            resolved.to_ms,
            partitions,
            facts,
            replace(inspection, rows=()),
            self._estimate(partitions, facts, samples),
            notes,
            self._previews(inspection, look),
        )

    def arriving(self, decoded: Sequence[Records]) -> Sequence[Records]:
        """Decoded records as the transform leaves them."""
        return self.transformed(decoded) if self.transformed else decoded

    def _look(
        self,
        facts: SourceFacts,
        bounds: Mapping[TopicPartition, Bounds],
        arriving: Sequence[Records],
        kinds: Mapping[str, Kinds],
    ) -> InspectRequest:
        partitions: dict[str, int] = {}
        for topic, _ in bounds:
            partitions[topic] = partitions.get(topic, 0) + 1
        times = [
            time
            for records in arriving
            for time, kind in zip(records.timestamps_ms, records.timestamp_types, strict=True)
            if kind != TimestampType.NONE.value
        ]
        return InspectRequest(
            facts,
            partitions,
            arriving,
            min(times, default=None),
            kinds,
            ends_on_refusal=self.request.spec.on_error.action == "fail",
        )

    def _previews(
        self, inspection: Inspection, look: InspectRequest
    ) -> tuple[Mapping[str, object], ...]:
        """The first and the last records, as the target would have them."""
        rows: list[Mapping[str, object]] = [*inspection.rows]
        for records in () if rows else look.shown():
            rows += self.ends.target.preview(records)
        return tuple({name: _shortened(value) for name, value in row.items()} for row in rows)

    def _future(self, partitions: Sequence[PartitionPlan], resolved: Resolved) -> list[Note]:
        if self.request.spec.pace.times is None:
            return []
        horizon_ms = horizon_of(self.now_ns // 1_000_000)
        inside = Filter(max(horizon_ms, resolved.from_ms or 0), resolved.to_ms)
        return future(sampling.of_the_future(self.ends.source, partitions, horizon_ms, inside))

    def _estimate(
        self, partitions: Sequence[PartitionPlan], facts: SourceFacts, samples: Sequence[Records]
    ) -> Estimate:
        records = sum(each.planned for each in partitions)
        size = _size_bytes(partitions, facts)
        pace = self.request.spec.pace
        if not pace.is_max:
            horizon_ms = horizon_of(self.now_ns // 1_000_000)
            # How much silence --max-gap will cut is not known yet.
            is_cut = pace.max_gap_ms is not None
            seconds = None if is_cut else _paced_seconds(pace, records, samples, horizon_ms)
            return Estimate(records, size, seconds, f"pace {self.request.pace}")
        if self.known_rate:
            told = f"the work of comparable runs here: {self.known_rate:,.0f} records/s, without the engine's start"
            return Estimate(records, size, records / self.known_rate, told)
        told = f"an assumed rate of {_GUESSED_RATE:,} records/s"
        told += f"; no comparable run of {LEAST_RECORDS:,} records here yet"
        return Estimate(records, size, records / _GUESSED_RATE, told)


@dataclass(slots=True)
class _Wider:
    """Samples of all parts of a span, read when a target asks for them, and once."""

    planner: Planner
    look: InspectRequest
    partitions: Sequence[PartitionPlan]
    resolved: Resolved
    samples: Sequence[Records]
    found: InspectRequest | None = None

    def __call__(self) -> InspectRequest:
        if self.found is None:
            source = self.planner.ends.source
            found = sampling.strides(source, self.partitions, self.resolved, self._arriving)
            more = sampling.unlike(found, self.samples)
            decoded = self._decoded([*self.samples, *more])
            kinds = {} if self.planner.request.spec.transform.select else decoded.kinds
            # The first samples have arrived already.
            arriving = (*self.look.samples, *self._arriving(more))
            self.found = replace(self.look, samples=arriving, kinds=kinds)
        return self.found

    def _arriving(self, records: Sequence[Records]) -> Sequence[Records]:
        arriving = self.planner.arriving(self._decoded(records).records) if records else ()
        return readable(arriving, _UNREAD)[0]

    def _decoded(self, records: Sequence[Records]) -> Sampled:
        return sampled(records, self.planner.ends.decoding, self.planner.request.decode)


def _paced_seconds(
    pace: Pace, records: int, samples: Sequence[Records], horizon_ms: int
) -> float | None:
    """Estimate by the rate, or by the first and last times of the samples."""
    if pace.per_second is not None:
        return round(float(records / pace.per_second), 3)
    times = [time for each in samples for time in each.timestamps_ms if 0 <= time <= horizon_ms]
    if pace.times is None or not times:
        return None
    return round(float((max(times) - min(times)) / pace.times / 1_000), 3)


def _shortened(value: object, depth: int = _DEEPEST_SHOWN) -> object:
    """Shorten a value for display: a plan must not grow with the records, nor be as deep."""
    if not depth and isinstance(value, Mapping | list | tuple):
        return "…"
    if isinstance(value, str) and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]}…"
    if isinstance(value, bytes):
        return value[:_MOST_SHOWN]
    if isinstance(value, Mapping):
        some = [*value.items()][:_MOST_ITEMS]
        return {name: _shortened(each, depth - 1) for name, each in some}
    if isinstance(value, list | tuple):
        return [_shortened(each, depth - 1) for each in value[:_MOST_ITEMS]]
    return value


@dataclass(frozen=True, slots=True)
class Frozen:
    """The offsets of a span in each partition, and what is known of their ends."""

    partitions: tuple[PartitionPlan, ...] = ()
    notes: tuple[Note, ...] = ()
    reaching: frozenset[TopicPartition] = frozenset()
    """Partitions in which the span takes, or looked at, every offset that can be read."""


def freeze(
    source: Source,
    bounds: Mapping[TopicPartition, Bounds],
    resolved: Resolved,
    request: Request,
    topics: Mapping[str, TopicFacts],
    is_least: bool = False,
) -> Frozen:
    """Return the span's offsets in each partition now, with notes."""
    if resolved.offsets:
        return Frozen(_by_offsets(bounds, resolved))
    found = time_span(
        source,
        bounds,
        resolved,
        lateness_ms=request.lateness_ms,
        read_on=replace(request.spec.read_on, is_least=is_least),
        topics=topics,
    )
    partitions = tuple(
        _partition(place, bounds[place], (each.from_offset, each.span_end, each.to_offset))
        for place, each in found.partitions.items()
    )
    return Frozen(partitions, found.notes, found.reaching)


def _partition(place: TopicPartition, held: Bounds, offsets: tuple[int, int, int]) -> PartitionPlan:
    return PartitionPlan(*place, *offsets, held.earliest, held.stable_end, held.high_watermark)


def _by_offsets(
    bounds: Mapping[TopicPartition, Bounds], resolved: Resolved
) -> tuple[PartitionPlan, ...]:
    topics = sorted({topic for topic, _ in bounds})
    planned: list[PartitionPlan] = []
    for asked in resolved.offsets:
        if asked.topic is None and len(topics) != 1:
            raise NothingThere(
                f"the span has partition {asked.partition} without a topic, but the source "
                f"has {len(topics)} topics",
                hint="write TOPIC:PARTITION:FROM-TO",
            )
        place = (asked.topic or topics[0], asked.partition)
        held = bounds.get(place)
        if held is None:
            raise NothingThere(f"the source has no partition {place[0]}:{place[1]}")
        start = held.earliest if asked.from_offset is None else asked.from_offset
        end = held.stable_end if asked.to_offset is None else asked.to_offset
        if not held.earliest <= start <= end <= held.stable_end:
            raise _not_held(asked, place, held)
        planned.append(_partition(place, held, (start, end, end)))
    # In order and apart: overlapping offsets are refused earlier.
    return tuple(sorted(planned, key=lambda each: (each.place, each.from_offset)))


def _not_held(asked: OffsetSpan, place: TopicPartition, held: Bounds) -> Refused:
    name = f"{place[0]}:{place[1]}"
    first, last = asked.from_offset, asked.to_offset
    start = max(held.earliest if first is None else first, held.earliest)
    end = min(held.stable_end if last is None else last, held.stable_end)
    if start >= end:  # None of the requested offsets exists.
        start, end = held.earliest, held.stable_end
    shown = f"{'' if first is None else first}-{'' if last is None else last}"
    return Refused(
        f"{name} offsets {shown} do not exist; the partition holds {held.earliest}-{held.stable_end}",
        hint=f"use existing offsets: --offsets {name}:{start}-{end}"
        if start < end
        else "the partition has no records that can be read",
    )


def open_at_the_end(
    source: Source,
    partitions: Sequence[PartitionPlan],
    bounds: Mapping[TopicPartition, Bounds],
    reaching: Collection[TopicPartition] = (),
) -> list[PartitionPlan]:
    """Those that end, or whose span reaches, where a transaction is open; on a busy topic most are
    committed by now."""
    ends = [
        each
        for each in partitions
        if each.stable_end < each.high_watermark
        and (each.to_offset == each.stable_end or each.place in reaching)
    ]
    if not ends or not isinstance(source, HasTransactions):
        return ends
    is_open = source.open_transactions({each.place: bounds[each.place] for each in ends})
    return [each for each in ends if each.place in is_open]


def _refuse_same_topic(request: Request, partitions: Sequence[PartitionPlan]) -> None:
    """Refuse to replay a topic into itself: one cluster may have two addresses."""
    end = request.target_endpoint
    for topic in dict.fromkeys(each.topic for each in partitions):
        if system_of(end).kind == "topic" and request.spec.target_topic(topic) == topic:
            raise Refused(
                f"topic {topic} would be replayed into itself: both addresses are one cluster",
                hint="choose another topic as the target",
            )


def _size_bytes(partitions: Sequence[PartitionPlan], facts: SourceFacts) -> int | None:
    total = 0.0
    for each in partitions:
        known = facts.topics.get(each.topic)
        held = each.high_watermark - each.earliest
        if known is None or each.partition not in known.bytes_by_partition:
            return None
        if held:
            total += known.bytes_by_partition[each.partition] * each.planned / held
    return round(total)
