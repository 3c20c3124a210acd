"""Finds the offsets of a span that a target does not have: by its offsets, by its rows, or by its ledger."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from playhead.endpoint import system_of
from playhead.errors import BadValue, Refused, Unavailable, UsageError
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.offset_bitmap import missing
from playhead.record import Slice
from playhead.replay.assemble import Wiring, expecting
from playhead.replay.begun_replays import NotBegun
from playhead.replay.journal import Journal, JournalEntry
from playhead.replay.lanes import lanes_of
from playhead.replay.runner import RunJob
from playhead.replay.verify import parts
from playhead.request import Request
from playhead.source import SourceFacts, TopicPartition
from playhead.target import Archives, Inventory, Target
from playhead.task.job import Job
from playhead.task.slicer import Filter
from playhead.terms import NO_TERMS, OtherTerms, Terms, UnknownTerms, differing_ends

BY = ("offsets", "key", "ledger")
_AT_ONCE = 100_000
_JOB = "gaps"
_MOST_GAPS_EXPLAINED, _MOST_RUNS_ASKED = 1_000, 20


class OtherLedger(Refused):
    """A ledger is of another source or target than those that are compared."""

    def __init__(self, replay_id: str, differences: Sequence[str]) -> None:
        self.replay_id, self.differences = replay_id, tuple(differences)
        super().__init__(
            f"the ledger of {replay_id} cannot tell what is there: {'; '.join(differences)}",
            hint="name a ledger of these ends: --ledger ID (`playhead runs` lists them); or compare a "
            "table itself: --by offsets, or --by key --key COLS",
        )


@dataclass(slots=True)
class MissingOffsets:
    """Offsets that the target does not have, in order, whether or not the log has a record there."""

    slices: list[Slice]
    by: str
    duplicates: int | None = None
    notes: list[Note] = field(default_factory=list)
    records: dict[Slice, int] | None = None
    """How many records are lacking in each, where a transform decides that and not the log."""


def inventory_of(target: Target) -> Inventory:
    """The target as one that knows what it has; refuses another."""
    if not isinstance(target, Inventory):
        raise Refused(
            f"a {type(target).__name__} cannot tell which records it has",
            hint="compare by what was committed: --by ledger",
        )
    return target


def by_offsets(target: Target, spans: Sequence[Slice]) -> MissingOffsets:
    """By the columns `_partition` and `_offset` of a table."""
    held = inventory_of(target).held_offsets(spans)
    by_place: dict[TopicPartition, list[Slice]] = {}
    for span in spans:
        by_place.setdefault((span.topic, span.partition), []).append(span)
    slices = [
        gap for place, its in by_place.items() for gap in missing(its, held.words.get(place, ()))
    ]
    notes = [
        Note("untold", f"{table} has no _topic: all of its rows are taken for this topic's", "info")
        for table in held.untold
    ]
    if slices:
        notes += [_unplaced(table) for table in held.unplaced]
    return MissingOffsets(slices, "offsets", held.duplicates, notes)


def _unplaced(table: str) -> Note:
    text = f"{table} has rows without _partition or _offset: some of them may be what seems missing"
    return Note("unplaced", f"{text}; --by key --key COLS compares by the rows themselves")


@dataclass(frozen=True, slots=True)
class RowLookup:
    """What it takes to look for records by the rows of a table."""

    ends: Wiring
    facts: SourceFacts
    run_job: RunJob
    slots: int
    table: str
    is_transformed: bool = False
    in_time: Filter = field(default_factory=Filter)
    """Which records are of the span, by their own times."""

    def lacking(self, spans: Sequence[Slice], columns: Sequence[str]) -> MissingOffsets:
        """The engine reads and decodes the records of the spans, and the database looks for each."""
        target = inventory_of(self.ends.target).known_by_columns(tuple(columns))
        source = expecting(self.ends.source, self.facts)
        pieces = [piece for span in spans for piece in _pieces(span)]
        works = tuple(tuple(lanes_of(part)) for part in parts(pieces, self.slots))
        compares = {piece: Entry(piece, 0, 0) for piece in pieces}
        decoding = self.ends.decoding
        job = Job(_JOB, source, target, works, self.in_time, decoding=decoding, compares=compares)
        reports = self.run_job(job) if works else []
        away = next((report["away"] for report in reports if report["away"]), None)
        if away is not None:
            raise Unavailable(f"could not read everything: {away}", hint="try again")
        findings = [finding for report in reports for finding in report["findings"]]
        _need_all(pieces, [Slice(**each["slice"]) for each in findings])
        runs = {
            Slice(each["slice"]["topic"], each["slice"]["partition"], start, end): count
            for each in findings
            for start, end, count in each["missing"]
        }
        unlike = sum(each["unlike"] for each in findings)
        notes = [_unlike(unlike, self.table)] if unlike else []
        counts = runs if self.is_transformed else None
        return MissingOffsets(sorted(runs), f"rows by {', '.join(columns)}", None, notes, counts)


def _pieces(span: Slice) -> Iterable[Slice]:
    for start in range(span.from_offset, span.to_offset, _AT_ONCE):
        yield replace(span, from_offset=start, to_offset=min(start + _AT_ONCE, span.to_offset))


def _need_all(pieces: Sequence[Slice], looked_at: Sequence[Slice]) -> None:
    if left := sum(map(len, remaining(pieces, looked_at))):
        raise Unavailable(f"{left:,} offsets were not looked at", hint="try again")


def _unlike(count: int, table: str) -> Note:
    text = f"{count:,} records of the span can be no rows of {table}: tombstones, or not as it needs them"
    return Note("unlike", f"{text}; they were not looked for")


def by_ledger(
    request: Request, ends: Wiring, facts: SourceFacts, spans: Sequence[Slice], ids: Sequence[str]
) -> MissingOffsets:
    """By what was committed: all of an archive's ledgers; else those of named replays, or this machine's.

    A ledger of other ends tells nothing: it is refused when it was named, and else left out.
    """
    is_archive = system_of(request.target_endpoint).kind == "archive"
    known = ids or _known_ledgers(request, ends, facts, is_archive=is_archive)
    kept, others = _known_terms(known, ends.target, facts, are_named=bool(ids))
    if others and (ids or (len(others) == len(known) and not is_archive)):
        raise OtherLedger(*next(iter(others.items())))
    theirs = {each: ends.target.entries(each) for each in kept}
    old = [each for each in kept if kept[each] is None]
    for each in old:
        if ids and not theirs[each]:
            raise NotBegun(each, request.target_endpoint)
    entries = [entry for found in theirs.values() for entry in found]
    by = f"the ledger of {', '.join([*kept][:3])}{' …' if len(kept) > 3 else ''}"
    if is_archive:
        by = "the archive's own ledgers"
    notes = [_ONLY_LEDGER, *_left_out(entries, spans), *itertools.starmap(_left, others.items())]
    notes += [_old(each) for each in old if theirs[each]]
    return MissingOffsets(remaining(spans, [entry.slice for entry in entries]), by, notes=notes)


def _known_ledgers(
    request: Request, ends: Wiring, facts: SourceFacts, *, is_archive: bool
) -> list[str]:
    if is_archive and isinstance(ends.target, Archives):
        return list(ends.target.replays())
    found = [run.replay_id for run in Journal().runs() if _is_theirs(run, request, facts)]
    if not found:
        raise Refused(
            f"no replay of {request.source_endpoint.shown()} into "
            f"{request.target_endpoint.shown()} is known here, whose ledger could tell",
            hint="name one: --ledger ID; or compare the table itself, by offsets or --by key",
        )
    return found


def _known_terms(
    ids: Sequence[str], target: Target, facts: SourceFacts, *, are_named: bool
) -> tuple[dict[str, Terms | None], dict[str, list[str]]]:
    """The terms of ledgers that are of these ends, or cannot tell; and why the others are of other ones.

    That it is of other topics is worth saying only of one that was named: an archive holds many.
    """
    topics = {name: topic.topic_id or "" for name, topic in facts.topics.items()}
    now = Terms("", facts.identity, topics, target.identity(), {}, places=target.whereto(topics))
    known: dict[str, Terms | None] = {}
    others: dict[str, list[str]] = {}
    for replay_id in ids:
        try:
            kept = target.terms(replay_id)
        except (OtherTerms, UnknownTerms) as exc:
            others[replay_id] = [str(exc)]
            continue
        if kept is None:
            known[replay_id] = None
        elif kept.topics and kept.topics.keys().isdisjoint(topics):
            if are_named:
                said = f"it is of {', '.join(sorted(kept.topics))}, and not of {', '.join(topics)}"
                others[replay_id] = [said]
        elif told := differing_ends(kept, now):
            others[replay_id] = told
        else:
            known[replay_id] = kept
    return known, others


def _old(replay_id: str) -> Note:
    text = f"the ledger of {replay_id} has no terms, as an earlier version began it: that it is of this"
    return Note(NO_TERMS, f"{text} source and target cannot be told")


def _left(replay_id: str, differences: Sequence[str]) -> Note:
    text = f"the ledger of {replay_id} was left out, which is of something else: {differences[0]}"
    return Note("other-ledger", text)


_ONLY_LEDGER = Note(
    "only-ledger",
    "a ledger says what was committed: what others wrote it does not know, nor what was deleted since",
)


def committed_before(
    request: Request, ends: Wiring, facts: SourceFacts, gaps: Sequence[Slice]
) -> list[Note]:
    """Which of the gaps a run of this machine has committed all the same: that is another kind of loss."""
    if not gaps or len(gaps) > _MOST_GAPS_EXPLAINED:
        return []
    notes = []
    theirs = [run for run in Journal().runs() if _is_theirs(run, request, facts)]
    for run in theirs[:_MOST_RUNS_ASKED]:
        entries = ends.target.entries(run.replay_id)
        touching = [e for e in entries if any(e.slice.overlaps(gap) for gap in gaps)]
        left = remaining(gaps, [entry.slice for entry in touching])
        count = sum(map(len, gaps)) - sum(map(len, left))
        if count:
            notes.append(_committed(run.replay_id, count, touching))
    return notes


def _committed(replay_id: str, count: int, entries: Sequence[Entry]) -> Note:
    unwritten = sum(e.read - e.written for e in entries)
    text = f"{count:,} of these offsets were committed by replay {replay_id}"
    if unwritten:
        return Note("committed", f"{text}, whose slices there left {unwritten:,} records unwritten")
    return Note(
        "committed", f"{text}: their rows are not there now, deleted, replaced, or never there"
    )


def _is_theirs(run: JournalEntry, request: Request, facts: SourceFacts) -> bool:
    """Whether a run went from this source, as it is now, to this target."""
    asked, named = run.plan.request, request.from_anywhere()
    if (asked.source, asked.target) != (named.source, named.target):
        return False
    ids = {name: topic.topic_id for name, topic in facts.topics.items()}
    then = {name: topic.topic_id for name, topic in run.plan.source.topics.items()}
    return run.plan.source.identity == facts.identity and ids == then


def _left_out(entries: Sequence[Entry], spans: Sequence[Slice]) -> list[Note]:
    inside = [entry for entry in entries if any(entry.slice.overlaps(span) for span in spans)]
    count = sum(entry.filtered + entry.outside + entry.dead + entry.skipped for entry in inside)
    if not count:
        return []
    text = (
        f"{count:,} records were committed as not to be written: filtered out, outside, or refused"
    )
    return [Note("left-out", text, "info")]


def columns_of(request: Request, time_column: str | None) -> tuple[str, ...]:
    """By which columns rows are known; refuses when nobody said."""
    key = request.spec.table.key
    if not key:
        raise UsageError(
            "--by key needs to know which columns tell rows apart",
            hint="--by key --key car,seq; with --time COL when only both together do",
        )
    return (*key, *((time_column,) if time_column else ()))


def way_of(request: Request, asked: str | None, has_offsets: Callable[[], bool]) -> str:
    """How to compare, where that was not said; refuses what a target cannot do."""
    if asked is not None and asked not in BY:
        raise BadValue("--by", found=asked, needed=" or ".join(BY))
    if system_of(request.target_endpoint).kind != "table":
        if asked in ("offsets", "key"):
            raise Refused(
                f"{request.target_endpoint.shown()} is no table: what it has is known by its ledger alone",
                hint="--by ledger, or leave --by out; `playhead verify SOURCE TARGET` reads both ends",
            )
        return "ledger"
    if asked is not None:
        return asked
    return "key" if request.spec.table.key and not has_offsets() else "offsets"
