"""Reads a target back, slice by slice of its ledger, and compares it with the source."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

from playhead.errors import Unavailable
from playhead.extra_fields import ExtraFields
from playhead.inventory import DescribesTables
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.plan import Plan
from playhead.proof import extra_fields_notes, extra_fields_text, unstable_text
from playhead.record import Slice
from playhead.replay.assemble import Wiring, expecting
from playhead.replay.guards import altered_notes, written_rows
from playhead.replay.partition_work import partition_works
from playhead.replay.plan_notes import EXPIRED
from playhead.replay.runner import RunJob
from playhead.replay.samples import NO_RECORDS
from playhead.source import SourceFacts, read_directly
from playhead.target import Target
from playhead.task.dead_letter_check import DeadLetterReader, are_counted
from playhead.task.job import Job
from playhead.task.slicer import Filter
from playhead.time_span import OPEN_TRANSACTION

MOST_DIFFERENCES = 100


@dataclass(frozen=True, slots=True)
class PartitionCheck:
    """The comparison of one partition of the source with the target."""

    topic: str
    partition: int | None
    """None for all partitions together."""
    slices: int
    expected: int
    found: int
    different: int
    checksums_agree: bool
    same: int = 0
    unknown: int = 0
    """Records that could not be compared; see `differences` for the reason."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of reading back."""

    replay_id: str
    partitions: tuple[PartitionCheck, ...]
    differences: tuple[Mapping[str, Any], ...]
    uncovered: int
    """Planned offsets that the ledger lacks, and which therefore cannot be compared."""
    extra_fields: Mapping[str, ExtraFields] = field(default_factory=dict)
    """For each source topic, the fields of its records that no column of the target takes."""
    unstable: int = 0
    """Offsets that may be of the span, but could not be read behind an open transaction."""
    is_of_run: bool = True
    """Whether the records of a run were compared, which has planned no unstable offsets."""
    told: tuple[Note, ...] = ()
    """Notes of the plan that matter for the result."""
    policed: tuple[str, ...] = ()
    """Tables whose row security may hide rows from the user."""
    altered: tuple[str, ...] = ()
    """Changes of columns that were written, whose values cannot be compared therefore."""
    unfilled: tuple[str, ...] = ()
    """Columns of the target into which the run wrote nothing."""
    lacks: tuple[str, ...] = ()
    """Columns that are gone, and without which nothing could be compared."""

    @property
    def agrees(self) -> bool:
        is_whole = self.uncovered == 0 and (self.is_of_run or not (self.unstable or self._is_cut))
        return (is_whole and not self.altered and not self.lacks) and all(
            each.different == each.unknown == 0 and each.checksums_agree for each in self.partitions
        )

    @property
    def _is_cut(self) -> bool:
        """Whether the log begins inside the span by time, because its first records were deleted."""
        return any(note.code == EXPIRED for note in self.told)

    @property
    def expected(self) -> int:
        return sum(each.expected for each in self.partitions)

    @property
    def same(self) -> int:
        return sum(each.same for each in self.partitions)

    @property
    def different(self) -> int:
        return sum(each.different for each in self.partitions)

    @property
    def unknown(self) -> int:
        return sum(each.unknown for each in self.partitions)

    def verdict(self) -> str:
        text = (
            f"{self._word()}: {self.expected:,} records read back, {self.different:,} differences"
        )
        if self.unknown:
            text += f", {self.unknown:,} that could not be compared"
        if self.altered:
            text += f", {len(self.altered):,} columns altered since"
        if self.uncovered:
            text += f", {self.uncovered:,} offsets not replayed yet, or not read back"
        if self._is_cut:
            text += "; NOT the whole span: the log begins inside it (expired)"
        return text + unstable_text(self.unstable) + extra_fields_text(self.extra_fields)

    def _word(self) -> str:
        if self.agrees:
            return "verified"
        # Checksums that disagree are a difference even if no record differs.
        is_told = self.different == 0 and (self.unknown or all(_agree(self.partitions)))
        return "CANNOT BE TOLD" if is_told or self._may_be_hidden() else "DIFFERENT"

    def _may_be_hidden(self) -> bool:
        """Whether all differences are rows that seem to be missing, and policies may hide them."""
        missing = sum(each["kind"] == "missing" for each in self.differences)
        # Not all differences are listed, and one that is not may be of another kind.
        return bool(self.policed) and missing == self.different > 0

    def notes(self) -> list[Note]:
        """What should be known beside the verdict."""
        hidden = (
            Note(
                "row-security",
                f"{table} has row security for this user, which may hide rows: what seems to be missing may be "
                "there, and what should not be there may be unseen; connect as the owner of the table, or as a "
                "user with BYPASSRLS",
            )
            for table in self.policed
        )
        altered = [*altered_notes(self.altered), *self._lacking_notes()]
        return [*self.told, *hidden, *altered, *extra_fields_notes(self.extra_fields)]

    def _lacking_notes(self) -> Iterator[Note]:
        for each in self.lacks:
            yield Note(
                "columns-missing", f"{each}: no row could be looked up, and none was compared"
            )
        if self.different and self.unfilled:
            text = f"the run wrote nothing into {', '.join(self.unfilled)}; differences in these columns are no"
            yield Note(
                "columns-unfilled",
                f"{text} fault of it: they were added since, or other programs fill them",
            )

    def after(self, plan: Plan, target: Target, *, is_of_run: bool) -> "Verification":
        """Return it with what planning could not read of the span, and what the target may hide."""
        # A run has planned what the log had then, and its plan said so.
        matters = (OPEN_TRANSACTION, NO_RECORDS, *(() if is_of_run else (EXPIRED,)))
        told = tuple(each for each in plan.notes if each.code in matters)
        policed: Sequence[str] = ()
        if isinstance(target, DescribesTables):
            policed = target.table_facts(sorted(plan.source.topics)).policed
        # A run has frozen its end; a comparison of the whole log is of all that is there now.
        unstable = plan.unstable if is_of_run else plan.hidden
        return replace(
            self, unstable=unstable, is_of_run=is_of_run, told=told, policed=tuple(policed)
        )

    def as_document(self) -> dict[str, Any]:
        rows = [
            {name: getattr(each, name) for name in PartitionCheck.__slots__}
            for each in self.partitions
        ]
        return {
            "replay_id": self.replay_id,
            "agrees": self.agrees,
            "verdict": self.verdict(),
            "same": self.same,
            "different": self.different,
            "unknown": self.unknown,
            "uncovered": self.uncovered,
            "unstable": self.unstable,
            "extra_fields": {name: each.as_document() for name, each in self.extra_fields.items()},
            "altered": list(self.altered),
            "partitions": rows,
            "differences": list(self.differences),
            "notes": [asdict(note) for note in self.notes()],
        }


def verify(plan: Plan, ends: Wiring, run_job: RunJob, slots: int) -> Verification:
    """Read, transform and compare every committed slice again, without writing."""
    entries = ends.target.entries(plan.replay_id)
    ends = replace(ends, source=read_directly(ends.source))
    filter_ = Filter(plan.from_ms, plan.to_ms, plan.span_ends())
    slots = slots_of(ends.target, entries, slots)
    job = comparing_job(plan.replay_id, ends, plan.source, entries, filter_, slots)
    job = replace(job, letters=_letters(plan, ends, entries))
    rows = written_rows(ends.target, entries)
    findings = [] if rows.lacks else findings_of(run_job, job)
    return replace(
        checked(plan, findings).after(plan, ends.target, is_of_run=True),
        altered=tuple(rows.altered),
        unfilled=tuple(rows.unfilled),
        lacks=tuple(rows.lacks),
    )


def comparing_job(
    replay_id: str,
    ends: Wiring,
    facts: SourceFacts,
    entries: Iterable[Entry],
    filter_: Filter,
    slots: int,
) -> Job:
    """Return the job that reads the slices of these entries and compares them with the target."""
    compares = {entry.slice: entry for entry in entries}
    tasks = tuple(tuple(partition_works(part)) for part in parts(sorted(compares), slots))
    source = expecting(ends.source, facts)
    decoding = ends.decoding
    return Job(replay_id, source, ends.target, tasks, filter_, decoding=decoding, compares=compares)


def findings_of(run_job: RunJob, job: Job) -> list[Mapping[str, Any]]:
    """Run a comparing job; return what it found of each slice."""
    reports = run_job(job) if job.tasks else []
    for report in reports:
        if away := report["away"]:
            hint = report["away_hint"] or "try again; `playhead doctor` tests the connections"
            raise Unavailable(f"could not read everything: {away}", hint=hint)
    return [finding for report in reports for finding in report["findings"]]


def checked(plan: Plan, findings: Sequence[Mapping[str, Any]]) -> Verification:
    """Combine the findings of a comparing job."""
    # Only what was compared counts, not what the ledger claims.
    compared = [Slice(**finding["slice"]) for finding in findings]
    return Verification(
        plan.replay_id,
        tuple(_by_partition(findings)),
        tuple(d for finding in findings for d in finding["differences"])[:MOST_DIFFERENCES],
        sum(map(len, remaining(plan.slices(), compared))),
        _extra_fields(findings),
    )


def _extra_fields(findings: Sequence[Mapping[str, Any]]) -> dict[str, ExtraFields]:
    by_topic: dict[str, list[ExtraFields]] = {}
    for finding in findings:
        if (its := ExtraFields(**finding["extra_fields"])).records:
            by_topic.setdefault(finding["slice"]["topic"], []).append(its)
    return {topic: ExtraFields.total(each) for topic, each in sorted(by_topic.items())}


def _letters(plan: Plan, ends: Wiring, entries: Sequence[Entry]) -> DeadLetterReader | None:
    """Return the dead letters that the ledger counts, as they are now."""
    if ends.dead_letters is None or not are_counted(entries):
        return None
    return ends.dead_letters.letters(plan.replay_id)


def slots_of(target: Target, entries: Iterable[Entry], slots: int) -> int:
    """Return how many tasks may compare: one, if a slice's rows depend on later slices."""
    topics = sorted({entry.slice.topic for entry in entries})
    return 1 if topics and target.compares_in_order(topics) else slots


def parts(slices: Sequence[Slice], slots: int) -> Iterator[Sequence[Slice]]:
    """Divide the slices into parts of similar length, one for each slot; neighbours stay together."""
    ends = [*accumulate(map(len, slices))]
    starts = [bisect_right(ends, ends[-1] * slot // slots) for slot in range(slots)] if ends else []
    for start, stop in pairwise([*starts, len(slices)]):
        if start < stop:
            yield slices[start:stop]


def _by_partition(findings: Iterable[Mapping[str, Any]]) -> Iterable[PartitionCheck]:
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for finding in findings:
        slice_ = finding["slice"]
        groups.setdefault((slice_["topic"], slice_["partition"]), []).append(finding)
    for (topic, partition), found in sorted(groups.items()):
        agree = all(each["expected_checksum"] == each["found_checksum"] for each in found)
        names = ("expected", "found", "different", "same", "unknown")
        sums = {name: sum(each[name] for each in found) for name in names}
        yield PartitionCheck(topic, partition, len(found), checksums_agree=agree, **sums)


def _agree(checks: Iterable[PartitionCheck]) -> Iterator[bool]:
    return (each.checksums_agree for each in checks)
