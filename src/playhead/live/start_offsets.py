"""The start of a pipeline in each partition: from its ledger, or else from its `--from`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playhead.errors import Refused
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.describe import committed, need_groups
from playhead.kafka.read.source import KafkaSource
from playhead.ledger import Entry
from playhead.live.pipeline_spec import EARLIEST, GROUP, LATEST, PipelineSpec
from playhead.replay.pipelines import Pipeline
from playhead.source import Bounds, Source, TopicPartition
from playhead.span import Span


def topics_of(source: Source) -> KafkaSource:
    """Return the source as topics, which the engine reads as a stream; refuse others."""
    if not isinstance(source, KafkaSource):
        raise Refused(f"a live pipeline reads topics of Kafka; found {type(source).__name__}")
    return source


class Expired(Refused):
    """Records expired from the log before the pipeline read them."""

    def __init__(self, name: str, gone: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self.name, self.gone = name, dict(gone)
        told = ", ".join(
            f"{topic}:{number}:{start}-{end}" for (topic, number), (start, end) in gone.items()
        )
        super().__init__(
            f"pipeline {name} cannot continue: "
            f"{sum(end - start for start, end in gone.values()):,} offsets expired from the "
            f"log before it read them: {told}",
            hint="--accept-loss continues after them; `playhead gaps` will show them",
        )


def told_of_loss(place: TopicPartition, lost: tuple[int, int]) -> str:
    """Return the line about expired records whose loss was accepted."""
    return f"LOST {place[0]}:{place[1]}:{lost[0]}-{lost[1]}: expired before it was read"


def told_of_passed(place: TopicPartition, passed: tuple[int, int]) -> str:
    """Return the line about offsets that the ledger lacks and that are not read."""
    return (
        f"NOT READ {place[0]}:{place[1]}:{passed[0]}-{passed[1]}: the group is beyond these offsets, and the "
        "ledger lacks them: dropped while the target was away, lost by a restored target, or before the first start"
    )


class BeyondTheEnd(Refused):
    """The ledger is ahead of the log."""

    def __init__(self, name: str, place: TopicPartition, *, ledger: int, end: int) -> None:
        self.place, self.ledger, self.end = place, ledger, end
        super().__init__(
            f"pipeline {name} has committed {place[0]}:{place[1]} up to {ledger:,}, but the "
            f"partition ends at {end:,}: the log was replaced",
            hint="find out whether the topic was created again or the cluster restored; a "
            "new --name starts from the beginning",
        )


class LedgerForgotten(Refused):
    """The ledger in a pipeline's target has fewer offsets than this machine has seen there."""

    def __init__(self, name: str, *, known: int, found: int, file: Path) -> None:
        self.name, self.known, self.found = name, known, found
        super().__init__(
            f"this machine has seen {known:,} offsets of pipeline {name} in the ledger of its "
            f"target, but finds {found:,} now: the others would be written again",
            hint="find out whether the ledger was deleted or the target restored. If the "
            f"ledger is right for the present data, delete {file}",
        )


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """The start of each partition, with its origin."""

    starts: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int]
    """The part that comes from the ledger."""
    skipped: Mapping[TopicPartition, tuple[int, int]]
    """Offsets whose loss was accepted."""
    passed: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """Offsets that the ledger lacks, and that are not read because the group is beyond them."""


def first_starts(
    begun: StartOffsets, known: Pipeline | None, entries: Iterable[Entry]
) -> dict[TopicPartition, int]:
    """Return where each partition first began, or last after a loss: its entries may vanish from the ledger.

    Of a partition that was added while the pipeline ran, only the ledger tells.
    """
    oldest: dict[TopicPartition, int] = {}
    for slice_ in (entry.slice for entry in entries):
        oldest[slice_.place] = min(slice_.from_offset, oldest.get(slice_.place, slice_.from_offset))

    def first(place: TopicPartition, at: int) -> int:
        if place in begun.skipped:
            return at
        noted = known.start(place) if known is not None else None
        return oldest.get(place, at) if noted is None else noted

    return {place: first(place, at) for place, at in begun.starts.items()}


def ledger_ends(entries: Iterable[Entry]) -> dict[TopicPartition, int]:
    """Return the ledger's end in each partition that it has."""
    found: dict[TopicPartition, int] = {}
    for entry in entries:
        place = entry.slice.topic, entry.slice.partition
        found[place] = max(found.get(place, 0), entry.slice.to_offset)
    return found


def refuse_forgotten(
    name: str, entries: Callable[[], Iterable[Entry]], *, known: int, file: Path
) -> None:
    """Refuse a ledger with less than was seen before; the first read may be incomplete."""
    for _ in range(2):
        found = sum(ledger_ends(entries()).values()) if known else 0
        if found >= known:
            return
    raise LedgerForgotten(name, known=known, found=found, file=file)


@dataclass(frozen=True, slots=True)
class KnownOffsets:
    """The known positions of a pipeline."""

    pipeline: Pipeline | None
    ledger: Mapping[TopicPartition, int]
    group: Mapping[TopicPartition, int]

    @property
    def is_new(self) -> bool:
        return self.pipeline is None and not self.ledger

    def end(self, place: TopicPartition) -> int:
        """Return where the ledger ends, or where the pipeline first began as far as this machine knows."""
        first = self.pipeline.start(place) if self.pipeline is not None else None
        return self.ledger.get(place, first or 0)


def beginning(
    wish: PipelineSpec,
    source: KafkaSource,
    pipeline: Pipeline | None,
    entries: Iterable[Entry],
    *,
    now_ns: int,
    timezone: str,
) -> StartOffsets:
    """Read the log and the group, and return the start."""
    bounds = source.bounds()
    known = KnownOffsets(pipeline, ledger_ends(entries), group_offsets(source, wish.group))
    first = _asked(wish, source, bounds, now_ns, timezone) if known.is_new else {}
    return decided(wish, bounds, known, first)


def decided(
    wish: PipelineSpec,
    bounds: Mapping[TopicPartition, Bounds],
    known: KnownOffsets,
    first: Mapping[TopicPartition, int],
) -> StartOffsets:
    """Return the start of each partition; refuse a start that would silently lose records."""
    starts: dict[TopicPartition, int] = {}
    gone: dict[TopicPartition, tuple[int, int]] = {}
    passed: dict[TopicPartition, tuple[int, int]] = {}
    for place, held in sorted(bounds.items()):
        at = _start(place, held, known, first)
        if wish.drop_when_down and not known.is_new:
            # Dropped offsets are not in the ledger; the group knows how far they were read.
            at = max(at, known.group.get(place, at))
        if not known.is_new and (lacks := max(known.end(place), held.earliest)) < at:
            passed[place] = (lacks, at)
        if at > held.high_watermark:
            raise BeyondTheEnd(wish.name, place, ledger=at, end=held.high_watermark)
        if at < held.earliest:
            gone[place] = (at, held.earliest)
        starts[place] = max(at, held.earliest)
    if gone and not wish.accept_loss:
        raise Expired(wish.name, gone)
    return StartOffsets(starts, known.ledger, gone, passed)


def _start(
    place: TopicPartition, held: Bounds, known: KnownOffsets, first: Mapping[TopicPartition, int]
) -> int:
    """Return the start from the ledger, else from the first start; a new partition is read from its beginning.

    The group is only asked where this machine has never run the pipeline: its offsets may be of records that a
    restored target lacks.
    """
    if known.is_new:
        return first.get(place, held.earliest)
    mark = known.pipeline
    noted = known.group.get(place) if mark is None else mark.start(place)
    for found in (known.ledger.get(place), noted):
        if found is not None:
            return found
    return held.earliest


def _asked(
    wish: PipelineSpec,
    source: KafkaSource,
    bounds: Mapping[TopicPartition, Bounds],
    now_ns: int,
    timezone: str,
) -> Mapping[TopicPartition, int]:
    """Return the offsets of `--from`, for a new pipeline."""
    if wish.start == LATEST:
        return {place: held.stable_end for place, held in bounds.items()}
    if wish.start == EARLIEST:
        return {place: held.earliest for place, held in bounds.items()}
    if wish.start.startswith(GROUP):
        name = wish.start.removeprefix(GROUP)
        with Admin(source.connection) as admin:
            need_groups(admin, [name])
        # A partition without a committed offset would be read from its start, or not at all.
        found = group_offsets(source, name)
        return {place: found.get(place, held.earliest) for place, held in bounds.items()}
    instant = Span.of(wish.start, None, None, None, None, timezone=timezone).resolve(now_ns)
    at = source.exact_offsets_at(instant.from_ms or 0)
    # The log may have moved between two requests.
    return {
        place: min(max(at.get(place, held.stable_end), held.earliest), held.stable_end)
        for place, held in bounds.items()
    }


def group_offsets(source: KafkaSource, group: str) -> dict[TopicPartition, int]:
    """Return the group's committed offsets for the source's partitions."""
    with Admin(source.connection) as admin:
        return {place: each.offset for place, each in committed(admin, group).items()}
