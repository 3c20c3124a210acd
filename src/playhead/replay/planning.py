"""Makes a plan: freezes the offsets, asks both ends, and says everything worth knowing first."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from playhead.errors import Refused, UsageError
from playhead.instant import show_ms
from playhead.pace import Pace
from playhead.plan import Estimate, PartitionPlan, Plan
from playhead.record import Slice, TimestampType
from playhead.records import Records
from playhead.replay.build import Ends
from playhead.replay.notes import expired, timestamps, unstable
from playhead.request import Request
from playhead.source import Bounds, Place, Source, SourceFacts
from playhead.span import Resolved, Span
from playhead.target import Look

_SAMPLES_AT_EACH_END = 3
_SAMPLES_TO_INFER_FROM = 500
_GUESSED_RATE = 100_000

Transformed = Callable[[Sequence[Records]], Sequence[Records]]


class NothingThere(UsageError):
    """The span names what the source does not have."""


@dataclass(frozen=True, slots=True)
class Planner:
    """What making a plan needs beside the request; `now_ns` is the run's one reading of the clock."""

    request: Request
    ends: Ends
    now_ns: int
    timezone: str = "UTC"
    transformed: Transformed | None = None
    """Applies the transform to samples; None when there is none."""
    known_rate: float | None = None
    """Records per second of an earlier run into such a target on this machine."""

    def plan(self, replay_id: str | None = None) -> Plan:
        """Everything is decided here; nothing is written."""
        source = self.ends.source
        bounds = source.bounds()
        facts = source.facts()
        resolved = Span.parse(self.request.span, timezone=self.timezone).resolve(self.now_ns)
        partitions = _freeze(source, bounds, resolved, self.request.lateness_ms)
        samples = _samples(source, partitions)
        arriving = self.transformed(samples) if self.transformed else samples
        inspection = self.ends.target.inspect(_look(facts, bounds, arriving))
        if inspection.identity == facts.identity:
            _refuse_same_topic(self.request, partitions)
        notes = (
            *timestamps(facts, samples, resolved),
            *expired(partitions, samples, resolved),
            *unstable(partitions),
            *facts.notes,
            *inspection.notes,
        )
        return Plan(
            replay_id or secrets.token_hex(4),
            self.request,
            time.time_ns() // 1_000_000,
            resolved.from_ms,
            resolved.to_ms,
            partitions,
            facts,
            inspection,
            self._estimate(partitions, facts),
            notes,
            self._previews(arriving),
        )

    def _previews(self, arriving: Sequence[Records]) -> tuple[Mapping[str, object], ...]:
        """The first and the last records, as the target would have them."""
        rows: list[Mapping[str, object]] = []
        for records in arriving[:8]:
            rows += self.ends.target.preview(_first_and_last(records))
        return tuple(rows)

    def _estimate(self, partitions: Sequence[PartitionPlan], facts: SourceFacts) -> Estimate:
        records = sum(each.planned for each in partitions)
        size = _size_bytes(partitions, facts)
        pace = Pace.parse(self.request.pace)
        if not pace.is_max:
            return Estimate(records, size, None, f"pace {self.request.pace}")
        if self.known_rate:
            told = f"the last run into such a target here, {self.known_rate:,.0f} records/s"
            return Estimate(records, size, records / self.known_rate, told)
        told = f"a guess of {_GUESSED_RATE:,} records/s; there was no such run here yet"
        return Estimate(records, size, records / _GUESSED_RATE, told)


def _first_and_last(records: Records) -> Records:
    count = len(records)
    if count <= 2 * _SAMPLES_AT_EACH_END:
        return records
    ends = [*range(_SAMPLES_AT_EACH_END), *range(count - _SAMPLES_AT_EACH_END, count)]
    return records.pick(ends)


def _freeze(
    source: Source, bounds: Mapping[Place, Bounds], resolved: Resolved, lateness_ms: int
) -> tuple[PartitionPlan, ...]:
    if resolved.offsets:
        return _by_offsets(bounds, resolved)
    first = source.offsets_at(resolved.from_ms) if resolved.from_ms is not None else {}
    end: Mapping[Place, int] = {}
    read_to: Mapping[Place, int] = {}
    if resolved.to_ms is not None:
        end = source.offsets_at(resolved.to_ms)
        read_to = source.offsets_at(resolved.to_ms + lateness_ms) if lateness_ms else end
    partitions = []
    for place, held in sorted(bounds.items()):
        from_offset = _clamped(first.get(place, held.earliest), held)
        span_end = max(from_offset, _clamped(end.get(place, held.stable_end), held))
        to_offset = max(span_end, _clamped(read_to.get(place, held.stable_end), held))
        partitions.append(_partition(place, held, (from_offset, span_end, to_offset)))
    return tuple(partitions)


def _clamped(offset: int, held: Bounds) -> int:
    # The log may have moved between two questions: what was not there at the first is not planned.
    return min(max(offset, held.earliest), held.stable_end)


def _partition(place: Place, held: Bounds, offsets: tuple[int, int, int]) -> PartitionPlan:
    return PartitionPlan(*place, *offsets, held.earliest, held.stable_end, held.high_watermark)


def _by_offsets(bounds: Mapping[Place, Bounds], resolved: Resolved) -> tuple[PartitionPlan, ...]:
    topics = sorted({topic for topic, _ in bounds})
    planned: dict[Place, PartitionPlan] = {}
    for asked in resolved.offsets:
        if asked.topic is None and len(topics) != 1:
            raise NothingThere(
                f"the span names partition {asked.partition} without a topic, "
                f"and the source has {len(topics)} topics",
                hint="write TOPIC:PARTITION:FROM-TO",
            )
        place = (asked.topic or topics[0], asked.partition)
        held = bounds.get(place)
        if held is None:
            raise NothingThere(f"the source has no partition {place[0]}:{place[1]}")
        if place in planned:
            raise NothingThere(f"the span names {place[0]}:{place[1]} twice")
        start = held.earliest if asked.from_offset is None else asked.from_offset
        end = held.stable_end if asked.to_offset is None else asked.to_offset
        if start < held.earliest or end > held.stable_end:
            raise Refused(
                f"{place[0]}:{place[1]} offsets {start}-{end} were asked for; "
                f"the partition holds {held.earliest}-{held.stable_end}",
                hint=f"what is there: --offsets {place[0]}:{place[1]}:"
                f"{max(start, held.earliest)}-{min(end, held.stable_end)}",
            )
        planned[place] = _partition(place, held, (start, end, end))
    return tuple(planned[place] for place in sorted(planned))


def _samples(source: Source, partitions: Sequence[PartitionPlan]) -> list[Records]:
    """Some records from the start of every topic's span, and some from its end."""
    found: dict[str, list[Records]] = {}
    with source.open() as reader:
        for each in partitions:
            if each.planned == 0 or len(found.get(each.topic, ())) >= 2:
                continue
            head_to = min(each.from_offset + _SAMPLES_TO_INFER_FROM, each.to_offset)
            spans = [(each.from_offset, head_to)]
            tail_from = max(head_to, each.span_end - _SAMPLES_AT_EACH_END)
            if tail_from < each.span_end:
                spans.append((tail_from, each.span_end))
            for span in spans:
                slice_ = Slice(each.topic, each.partition, *span)
                rows = [row for records in reader.read(slice_) for row in records]
                if rows:
                    found.setdefault(each.topic, []).append(Records.of(rows))
    return [records for held in found.values() for records in held]


def _look(facts: SourceFacts, bounds: Mapping[Place, Bounds], arriving: Sequence[Records]) -> Look:
    partitions: dict[str, int] = {}
    for topic, _ in bounds:
        partitions[topic] = partitions.get(topic, 0) + 1
    times = [
        time
        for records in arriving
        for time, kind in zip(records.timestamps_ms, records.timestamp_types, strict=True)
        if kind != TimestampType.NONE.value
    ]
    return Look(facts, partitions, arriving, min(times, default=None))


def _refuse_same_topic(request: Request, partitions: Sequence[PartitionPlan]) -> None:
    """One cluster under two addresses is still one cluster."""
    end = request.target_endpoint
    for topic in dict.fromkeys(each.topic for each in partitions):
        if end.system == "kafka" and end.name.replace("{topic}", topic) == topic:
            raise Refused(
                f"topic {topic} would be replayed into itself: both addresses are one cluster",
                hint="name another topic as the target",
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


def shown_span(plan: Plan) -> str:
    """The resolved instants of a plan, as they are echoed."""
    start = show_ms(plan.from_ms) if plan.from_ms is not None else "start"
    end = show_ms(plan.to_ms) if plan.to_ms is not None else "end"
    return f"[{start}, {end})"
