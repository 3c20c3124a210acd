"""The proof: accounts for every offset of a plan, from the plan and the ledger alone."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import Any

from playhead.absence import MOST_BLANKS, NOT_RECORDED, Blank
from playhead.checksum import Checksum, checksum_of, shown_checksum
from playhead.detail_notes import notes_of_details
from playhead.extra_fields import ExtraFields
from playhead.grammar.duration import show_duration_ms
from playhead.ledger import (
    Entry,
    extra_fields_by_topic,
    remaining,
    total_absences,
)
from playhead.note import Note
from playhead.plan import PartitionPlan, Plan
from playhead.shown import proof_html, proof_lines, text
from playhead.source import UNREAD, TopicPartition
from playhead.time_span import LOOKED, OPEN_TRANSACTION, READ_ON, SAMPLED

_NEAR_THE_EDGE = 0.8


@dataclass(frozen=True, slots=True)
class PartitionProof:
    """The counts of one planned run of a partition, usually of all its planned offsets.

    `planned = written + filtered + outside + dead + skipped + absent + unexplained + missing`. A proof
    holds if nothing is missing or unexplained, and nothing was committed twice.
    """

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    planned: int
    written: int
    filtered: int
    outside: int
    dead: int
    skipped: int
    absent: int
    """Offsets that hold no record for a known reason."""
    unexplained: int
    """Offsets that gave no record for an unknown reason."""
    missing: int
    """Planned offsets that no ledger entry covers."""
    duplicate: int
    """Offsets that more than one ledger entry covers."""
    foreign: int
    """Committed offsets that were not planned."""
    late: int

    @property
    def adds_up(self) -> bool:
        accounted = self.written + self.filtered + self.outside + self.dead + self.skipped
        whole = self.planned == accounted + self.absent + self.unexplained + self.missing
        faults = (self.missing, self.duplicate, self.foreign, self.unexplained)
        return whole and not any(faults)


_SUMS = (
    "planned",
    "written",
    "filtered",
    "outside",
    "dead",
    "skipped",
    "absent",
    "unexplained",
    "missing",
    "duplicate",
    "foreign",
    "late",
)


@dataclass(frozen=True, slots=True)
class Took:
    """How long a run took, and how much of the work was its own and not an earlier run's."""

    wall_s: float
    run_s: float
    """From the first task's start to the last commit."""
    first_commit_s: float | None
    records: int
    commits: int

    def as_document(self) -> dict[str, Any]:
        rate = self.records / self.run_s if self.run_s else None
        return asdict(self) | {"records_per_second": round(rate) if rate is not None else None}


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of every planned offset."""

    replay_id: str
    source: str
    target: str
    partitions: tuple[PartitionProof, ...]
    details: Mapping[str, int] = field(default_factory=dict)
    """The target's own counts, summed: rows inserted, updated, left alone."""
    absences: Mapping[str, int] = field(default_factory=dict)
    """How many offsets hold no record, by reason."""
    checksum: Checksum | None = None
    """The checksum of all records read, from the ledger; None if one slice has none."""
    notes: tuple[Note, ...] = ()
    took: Took | None = None
    pace: Mapping[str, Any] | None = None
    extra_fields: Mapping[str, ExtraFields] = field(default_factory=dict)
    """By source topic, what of its records no column of the target takes."""
    unstable: int = 0
    """Offsets that may be of a span by time, but could not be read behind an open transaction."""

    def __str__(self) -> str:
        return text(proof_lines(self))

    def _repr_html_(self) -> str:
        return proof_html(self)

    @property
    def adds_up(self) -> bool:
        return all(each.adds_up for each in self.partitions)

    @property
    def is_finished(self) -> bool:
        return self.total("missing") == 0

    def total(self, name: str) -> int:
        return sum(getattr(each, name) for each in self.partitions)

    def verdict(self) -> str:
        """One line with the result, for people."""
        counts = [f"{self.total('written'):,} written"]
        counts += [
            f"{self.total(name):,} {text}"
            for name, text in (
                ("filtered", "filtered out"),
                ("outside", "outside the span"),
                ("dead", "dead-lettered"),
                ("skipped", "skipped"),
                ("absent", "absent from the log"),
            )
            if self.total(name)
        ]
        if self.total("unexplained"):
            counts.append(f"{self.total('unexplained'):,} UNEXPLAINED")
        ending = f"{self.total('missing'):,} missing, {self.total('duplicate'):,} duplicates"
        if self.total("foreign"):
            ending += f", {self.total('foreign'):,} that were not planned"
        word = "proved" if self.adds_up else "NOT PROVED"
        counted = f"{word}: {self.total('planned'):,} offsets = {' + '.join(counts)}; {ending}"
        return counted + unstable_text(self.unstable) + extra_fields_text(self.extra_fields)

    @property
    def evidence(self) -> dict[str, str]:
        """What each part of the proof rests on."""
        looked = "nothing was absent"
        if self.absences or self.total("unexplained"):
            looked = "why offsets hold no record, when they were read"
        if NOT_RECORDED in self.absences:
            looked += "; not where an earlier version read them"
        content = "" if self.checksum is None else ", and a checksum of what was read"
        return {
            "ledger": f"what became of each offset, committed with the data{content}",
            "source": looked,
            "target": f"nothing was read back: playhead verify {self.replay_id} does",
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each partition, for people."""
        return [asdict(each) | {"adds_up": each.adds_up} for each in self.partitions]

    def as_document(self) -> dict[str, Any]:
        return {
            "replay_id": self.replay_id,
            "source": self.source,
            "target": self.target,
            "adds_up": self.adds_up,
            "verdict": self.verdict(),
            "unstable": self.unstable,
            "totals": {name: self.total(name) for name in _SUMS},
            "details": dict(self.details),
            "absences": dict(self.absences),
            "extra_fields": {name: each.as_document() for name, each in self.extra_fields.items()},
            "checksum": shown_checksum(self.checksum),
            "evidence": self.evidence,
            "partitions": self.rows(),
            "notes": [asdict(note) for note in self.notes],
            "took": self.took.as_document() if self.took else None,
            "pace": dict(self.pace) if self.pace else None,
        }


def prove(
    plan: Plan,
    entries: Iterable[Entry],
    *,
    took: Took | None = None,
    pace: Mapping[str, Any] | None = None,
) -> Proof:
    """Compare the ledger with the plan."""
    by_place: dict[TopicPartition, list[Entry]] = {}
    for entry in entries:
        by_place.setdefault((entry.slice.topic, entry.slice.partition), []).append(entry)
    runs = _runs_of(plan)
    partitions = [
        _partition(run, entries)
        for place in runs
        for run, entries in _shared_out(runs[place], by_place.get(place, ()))
    ]
    strangers = [
        _stranger(place, by_place[place]) for place in sorted(by_place.keys() - runs.keys())
    ]
    every = [entry for held in by_place.values() for entry in held]
    return Proof(
        plan.replay_id,
        plan.request.source_endpoint.shown(),
        plan.request.target_endpoint.shown(),
        (*partitions, *strangers),
        details=_details(every),
        absences=total_absences(every),
        checksum=checksum_of(it.checksum for it in sorted(every, key=attrgetter("slice"))),
        notes=_notes(plan, every),
        took=took,
        pace=pace,
        extra_fields=extra_fields_by_topic(every),
        unstable=plan.unstable,
    )


def _runs_of(plan: Plan) -> dict[TopicPartition, list[PartitionPlan]]:
    runs: dict[TopicPartition, list[PartitionPlan]] = {}
    for each in plan.partitions:
        runs.setdefault(each.place, []).append(each)
    return runs


def _shared_out(
    runs: Sequence[PartitionPlan], entries: Sequence[Entry]
) -> list[tuple[PartitionPlan, list[Entry]]]:
    """Assign each entry to the run that contains it, or as unplanned to the run before it."""
    starts = [run.from_offset for run in runs]
    held: list[list[Entry]] = [[] for _ in runs]
    for entry in entries:
        held[max(0, bisect_right(starts, entry.slice.from_offset) - 1)].append(entry)
    return list(zip(runs, held, strict=True))


def _partition(planned: PartitionPlan, entries: Sequence[Entry]) -> PartitionProof:
    slice_ = planned.slice()
    slices = [entry.slice for entry in entries]
    missing = sum(map(len, remaining([slice_] if slice_ else [], slices)))
    covered = _covered(entries)
    inside = planned.planned - missing
    sums = {name: sum(getattr(e, name) for e in entries) for name in _SUMS[1:8]}
    return PartitionProof(
        planned.topic,
        planned.partition,
        planned.from_offset,
        planned.to_offset,
        planned=planned.planned,
        **sums,
        missing=missing,
        duplicate=sum(map(len, slices)) - covered,
        foreign=covered - inside,
        late=sum(entry.late for entry in entries),
    )


def _stranger(place: TopicPartition, entries: Sequence[Entry]) -> PartitionProof:
    """Report the entries of a partition that is not in the plan."""
    first = min(entry.slice.from_offset for entry in entries)
    empty = PartitionPlan(*place, first, first, first, first, first, first)
    return _partition(empty, entries)


def _covered(entries: Sequence[Entry]) -> int:
    """Return how many offsets at least one entry covers."""
    total, reached = 0, -1
    for slice_ in sorted(entry.slice for entry in entries):
        start = max(slice_.from_offset, reached)
        total += max(0, slice_.to_offset - start)
        reached = max(reached, slice_.to_offset)
    return total


def _details(entries: Iterable[Entry]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for entry in entries:
        for name, value in entry.details.items():
            is_count = isinstance(value, int) and not isinstance(value, bool)
            if is_count and not name.endswith("_ms"):  # times have no sum
                sums[name] = sums.get(name, 0) + value
    return dict(sorted(sums.items()))


def _notes(plan: Plan, entries: Sequence[Entry]) -> tuple[Note, ...]:
    notes = [*_absent_notes(entries), *_unexplained_notes(entries)]
    late = sum(entry.late for entry in entries)
    if late:
        notes.append(_late_note(plan, late, entries))
    notes += notes_of_details(_details(entries))
    notes += extra_fields_notes(extra_fields_by_topic(entries))
    # What the plan could not inspect is unknown to the proof too.
    notes += [note for note in plan.notes if note.code in (SAMPLED, OPEN_TRANSACTION)]
    notes += [note for note in plan.source.notes if note.code == UNREAD]
    return tuple(notes)


def unstable_text(count: int) -> str:
    """What a verdict says of offsets that may be of the span and could not be read."""
    if not count:
        return ""
    return f"; NOT the whole span: {count:,} offsets behind an open transaction could not be read"


def extra_fields_text(by_topic: Mapping[str, ExtraFields]) -> str:
    """What a verdict says of records whose fields are not all in the target; nothing where all are."""
    records = sum(each.records for each in by_topic.values())
    return f"; {records:,} records have fields that no column takes" if records else ""


def extra_fields_notes(by_topic: Mapping[str, ExtraFields]) -> Iterator[Note]:
    """Which fields no column takes."""
    for topic, each in by_topic.items():
        text = (
            f"{each.records:,} records of {topic} have fields that no column takes: {each.text}; "
        )
        yield Note(
            "extra-fields", f"{text}--extra-fields COLUMN keeps them in a column of type jsonb"
        )


def _absent_notes(entries: Sequence[Entry]) -> Iterator[Note]:
    for topic in sorted({entry.slice.topic for entry in entries if entry.absent}):
        theirs = (entry for entry in entries if entry.slice.topic == topic)
        yield absent_note(topic, total_absences(theirs))


def _unexplained_notes(entries: Sequence[Entry]) -> Iterator[Note]:
    by_place: dict[TopicPartition, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.slice):
        if entry.unexplained:
            by_place.setdefault((entry.slice.topic, entry.slice.partition), []).append(entry)
    for place, found in by_place.items():
        blanks = [each for entry in found for each in entry.unexplained_at]
        yield unexplained_note(place, sum(entry.unexplained for entry in found), blanks)


def absent_note(topic: str, absences: Mapping[str, int]) -> Note:
    """Say why offsets of a topic hold no record."""
    count = sum(absences.values())
    reasons = {reason: each for reason, each in absences.items() if each}
    said = ", ".join(f"{reason}: {each:,}" for reason, each in sorted(reasons.items()))
    said = said if len(reasons) > 1 else next(iter(reasons))
    return Note("absent", f"{topic}: {count:,} offsets hold no record: {said}", "info")


def unexplained_note(place: TopicPartition, count: int, blanks: Sequence[Blank]) -> Note:
    """Name the first offsets that gave no record for an unknown reason."""
    named = ", ".join(f"{start}-{end}" for start, end in blanks[:MOST_BLANKS])
    text = f"{place[0]}:{place[1]}: {count:,} offsets gave no record for an unknown reason"
    return Note("unexplained", f"{text}: {named}" if named else text)


def _late_note(plan: Plan, late: int, entries: Sequence[Entry]) -> Note:
    last_ms = max(entry.last_late_ms or 0 for entry in entries)
    lateness_ms = plan.request.lateness_ms
    after = show_duration_ms(last_ms)
    text = f"{late:,} records of the span came late, the last one {after} after its end by the log's time"
    if not _is_all_known(plan) and last_ms >= _NEAR_THE_EDGE * lateness_ms:
        more = f"close to the {lateness_ms / 1000:g} s read past the end; later ones may exist: raise --lateness"
        return Note("late", f"{text}, {more}", "warn")
    return Note("late", text, "info")


def _is_all_known(plan: Plan) -> bool:
    """Return whether no record of the span can exist after the planned offsets."""
    codes = {note.code for note in plan.notes}
    is_looked_at = LOOKED in codes or READ_ON in codes
    is_to_end = all(each.to_offset == each.stable_end for each in plan.partitions)
    return is_to_end or (is_looked_at and SAMPLED not in codes)
