"""Finds the offsets of a span that a target lacks: by its offsets or its rows; chooses the way."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from playhead.endpoint import system_of
from playhead.errors import BadValue, Refused, UsageError
from playhead.gaps.gap import Gap
from playhead.gaps.lost_from_log import Committed
from playhead.inventory import Inventory
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.offset_bitmap import missing
from playhead.plan import Plan
from playhead.record import Slice
from playhead.replay.assemble import Wiring
from playhead.replay.journal import Journal, JournalEntry
from playhead.request import Request
from playhead.source import SourceFacts, TopicPartition
from playhead.target import Target

BY = ("offsets", "key", "ledger")
_MOST_RUNS_ASKED, _MOST_GAPS_ASKED = 20, 500_000


class NoKeyColumns(UsageError):
    """A comparison by key without columns; the hint names those of the table's own key."""

    def __init__(self, key: Sequence[str] = ()) -> None:
        self.key = tuple(key)
        super().__init__(
            "--by key needs the columns that identify a row",
            hint=f"add them: --by key --key {','.join(key) or 'COLS'}; and --time COL if the time belongs to them",
        )


@dataclass(slots=True)
class MissingOffsets:
    """Offsets that the target lacks, in order, whether or not the log has a record there."""

    slices: list[Slice]
    by: str
    duplicates: int | None = None
    notes: list[Note] = field(default_factory=list)
    records: dict[Slice, int] | None = None
    """How many records are missing in each run, if a transform decides that."""
    blind: int = 0
    """How many records there are, if not one of them could be looked for."""
    committed: Sequence[Committed] = ()
    """By a ledger: what replays of these very topics have committed."""
    undecided: int = 0
    """By a ledger: how many records may be missing, although it has their offsets."""


def inventory_of(target: Target) -> Inventory:
    """Return the target as an `Inventory`; refuse others."""
    if not isinstance(target, Inventory):
        raise Refused(
            "this target cannot be asked which records it has",
            hint="compare by the ledger: --by ledger",
        )
    return target


def by_offsets(target: Target, spans: Sequence[Slice]) -> MissingOffsets:
    """Compare the columns `_partition` and `_offset` of a table."""
    held = inventory_of(target).held_offsets(spans)
    by_place: dict[TopicPartition, list[Slice]] = {}
    for span in spans:
        by_place.setdefault((span.topic, span.partition), []).append(span)
    slices = [
        gap for place, its in by_place.items() for gap in missing(its, held.words.get(place, ()))
    ]
    notes = [
        Note(
            "untold",
            f"{table} has no column _topic: all of its rows are counted for this topic",
            "info",
        )
        for table in held.untold
    ]
    if slices:
        notes += [_unplaced(table) for table in held.unplaced]
    return MissingOffsets(slices, "offsets", held.duplicates, notes)


def _unplaced(table: str) -> Note:
    text = (
        f"{table} has rows without _partition or _offset: some of them may be the missing records"
    )
    return Note("unplaced", f"{text}; --by key --key COLS compares the rows themselves")


def committed_before(
    request: Request,
    ends: Wiring,
    facts: SourceFacts,
    gaps: Sequence[Gap],
    begun: Sequence[Committed],
) -> list[Note]:
    """Return notes on gaps that a run of this machine, or a pipeline, has committed: data left out or lost later.

    Records that a run read behind its span, as late ones, are not its own.
    """
    if not gaps:
        return []
    notes: list[Note] = []
    theirs = [run for run in Journal().runs() if is_theirs(run, request, facts)]
    # Of very many gaps, the latest run explains most.
    most = max(1, min(_MOST_RUNS_ASKED, _MOST_GAPS_ASKED // len(gaps)))
    for run in theirs[:most]:
        its = [gap.slice for gap in gaps if _is_of_span(gap, run.plan)]
        entries = ends.target.entries(run.replay_id) if its else []
        notes += _committed(f"replay {run.replay_id}", its, entries)
    for each in begun:
        if each.terms.is_endless:
            name = f"pipeline {each.replay_id.partition('.')[2]}"
            notes += _committed(name, [gap.slice for gap in gaps], each.entries)
    return notes


def _is_of_span(gap: Gap, plan: Plan) -> bool:
    """Whether some record of the gap may be of a run's span, by its time."""
    is_before = plan.to_ms is None or gap.first_ms is None or gap.first_ms < plan.to_ms
    return is_before and (
        plan.from_ms is None or gap.last_ms is None or plan.from_ms <= gap.last_ms
    )


def _committed(who: str, gaps: Sequence[Slice], entries: Sequence[Entry]) -> Iterator[Note]:
    touching = [*_touching(entries, gaps)]
    left = remaining(gaps, [part for entry in touching for part in entry.of_its_span()])
    count = sum(map(len, gaps)) - sum(map(len, left))
    if not count:
        return
    # A slice reaches beyond the gap, and so do its unwritten records.
    unwritten = min(count, sum(e.read - e.written - e.outside for e in touching))
    text = f"{who} committed {count:,} of these offsets"
    if unwritten:
        reasons = {
            "refused": sum(e.dead + e.skipped for e in touching),
            "filtered out": sum(e.filtered for e in touching),
        }
        why = " or ".join(reason for reason, records in reasons.items() if records)
        left_out = f"left {unwritten:,} records of their slices unwritten: {why}"
        yield Note("committed", f"{text}, but {left_out}")
        return
    skipped = sum(int(e.details.get("tombstones_skipped", 0)) for e in touching)
    tombstones = f"; {skipped:,} records of their slices are tombstones, which it skipped"
    more = f"{tombstones}: with --tombstones skip, they are no gaps" if skipped else ""
    yield Note(
        "committed",
        f"{text}: their rows are missing now; they were deleted, replaced, or never written{more}",
    )


def _touching(entries: Sequence[Entry], gaps: Sequence[Slice]) -> Iterator[Entry]:
    """Yield the entries that overlap some gap; gaps may be as many as records."""
    of: dict[TopicPartition, list[Slice]] = {}
    for gap in sorted(gaps):
        of.setdefault(gap.place, []).append(gap)
    for entry in entries:
        there, slice_ = of.get(entry.slice.place, []), entry.slice
        first = bisect_right(there, slice_.from_offset, key=lambda gap: gap.to_offset)
        if first < len(there) and there[first].from_offset < slice_.to_offset:
            yield entry


def is_theirs(run: JournalEntry, request: Request, facts: SourceFacts) -> bool:
    """Return whether a run went from this source, as it is now, to this target."""
    asked, named = run.plan.request, request.from_anywhere()
    if (asked.source, asked.target) != (named.source, named.target):
        return False
    ids = {name: topic.topic_id for name, topic in facts.topics.items()}
    then = {name: topic.topic_id for name, topic in run.plan.source.topics.items()}
    return run.plan.source.identity == facts.identity and ids == then


def columns_of(request: Request, time_column: str | None) -> tuple[str, ...]:
    """Return the columns that identify rows; refuse if none are given."""
    key = request.spec.table.key
    if not key:
        raise NoKeyColumns()
    return (*key, *((time_column,) if time_column else ()))


def way_of(request: Request, asked: str | None, has_offsets: Callable[[], bool]) -> str:
    """Choose how to compare; refuse what the target cannot do."""
    if asked is not None and asked not in BY:
        raise BadValue("--by", found=asked, needed=" or ".join(BY))
    if system_of(request.target_endpoint).kind != "table":
        if asked in ("offsets", "key"):
            raise Refused(
                f"{request.target_endpoint.shown()} is not a table: only its ledger knows what it has",
                hint="--by ledger, or leave --by out; `playhead verify SOURCE TARGET` reads both ends",
            )
        return "ledger"
    if asked is not None:
        return asked
    return "key" if request.spec.table.key and not has_offsets() else "offsets"
