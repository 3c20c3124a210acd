"""Finds the offsets of a span that a target lacks: by its offsets, its rows, or its ledger."""

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from playhead.replay.begun_replays import NotBegun
from playhead.replay.guards import KeepsCopies, lost_copies, refuse_lost_rows, said_of_lost
from playhead.replay.journal import Journal, JournalEntry, on_unreadable
from playhead.request import Request
from playhead.source import SourceFacts, TopicPartition
from playhead.target import Archives, CommonLedger, KeepsFiles, Target
from playhead.terms import NO_TERMS, OtherTerms, Terms, UnknownTerms, differing_ends

BY = ("offsets", "key", "ledger")
_MOST_RUNS_ASKED, _MOST_GAPS_ASKED, _MOST_REASONS = 20, 500_000, 3


class OtherLedger(Refused):
    """A ledger belongs to another source or target than the compared ones."""

    def __init__(self, replay_id: str, differences: Sequence[str]) -> None:
        self.replay_id, self.differences = replay_id, tuple(differences)
        super().__init__(
            f"the ledger of {replay_id} does not apply: {'; '.join(differences)}",
            hint="name a ledger of this source and target: --ledger ID (`playhead runs` "
            "lists them); or compare a table itself: --by offsets, or --by key --key "
            "COLS",
        )


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


def by_ledger(
    request: Request, ends: Wiring, facts: SourceFacts, spans: Sequence[Slice], ids: Sequence[str]
) -> MissingOffsets:
    """Compare the ledger: all of an archive's; else those of named replays, or of this machine's.

    A ledger of other ends is refused if it was named, and ignored otherwise.
    """
    is_archive = system_of(request.target_endpoint).kind == "archive"
    unreadable: list[str] = []
    known = ids or _known_ledgers(request, ends, facts, unreadable, is_archive=is_archive)
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
    notes += on_unreadable(unreadable)
    for replay_id, found in theirs.items():
        notes += refuse_lost_rows(ends.target, replay_id, found, is_run=False)
    lost = ends.target.lost_files(entries) if isinstance(ends.target, KeepsFiles) else {}
    notes += [_lost([lost[each] for each in sorted(lost)])] if lost else []
    there = [entry.slice for entry in entries if entry.slice not in lost]
    if isinstance(ends.target, KeepsCopies):
        there = []
        for replay_id, found in theirs.items():
            gone = lost_copies(ends.target, found)
            notes += [_gone(replay_id, gone)] if gone else []
            # What one replay has lost, another may have written again.
            there += remaining([entry.slice for entry in found], [*gone])
    committed = [
        Committed(each, terms, theirs[each]) for each, terms in kept.items() if terms is not None
    ]
    return MissingOffsets(remaining(spans, there), by, notes=notes, committed=committed)


def _known_ledgers(
    request: Request,
    ends: Wiring,
    facts: SourceFacts,
    unreadable: list[str],
    *,
    is_archive: bool,
) -> list[str]:
    if is_archive and isinstance(ends.target, Archives):
        return list(ends.target.replays())
    runs = Journal().runs(unreadable=unreadable)
    found = [run.replay_id for run in runs if _is_theirs(run, request, facts)]
    source, target = request.source_endpoint.shown(), request.target_endpoint.shown()
    absent = f"found no ledger of a replay of {source} into {target} on this machine"
    if isinstance(ends.target, CommonLedger):
        now = _terms_now(ends.target, facts)
        told = ends.target.replays_of(now.topics)
        found += [each for each, (terms, _) in told.items() if _leads_there(terms, now)]
        absent = f"no replay or pipeline of {source} into {target} is in the ledger of its cluster"
    if not found:
        hint = "name a ledger: --ledger ID; or compare the table itself, by offsets or --by key"
        raise Refused(absent, hint=hint)
    return [*dict.fromkeys(found)]


def _terms_now(target: Target, facts: SourceFacts) -> Terms:
    topics = {name: topic.topic_id or "" for name, topic in facts.topics.items()}
    return Terms("", facts.identity, topics, target.identity(), {}, places=target.whereto(topics))


def _leads_there(kept: Terms, now: Terms) -> bool:
    """Whether a replay or pipeline, perhaps of another machine, goes from these topics to these.

    A redrive goes to the topics that its records name; its terms have no places.
    """
    common = kept.topics.keys() & now.topics.keys()
    return bool(common) and common <= kept.places.keys() and not differing_ends(kept, now)


def _known_terms(
    ids: Sequence[str], target: Target, facts: SourceFacts, *, are_named: bool
) -> tuple[dict[str, Terms | None], dict[str, list[str]]]:
    """Return the terms of the ledgers that belong to these ends, and why the others do not.

    Other topics are mentioned only for a named ledger, because an archive has ledgers of many.
    """
    now = _terms_now(target, facts)
    topics = now.topics
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
                said = f"it is of {', '.join(sorted(kept.topics))}, not of {', '.join(topics)}"
                others[replay_id] = [said]
        elif told := differing_ends(kept, now):
            others[replay_id] = told
        else:
            known[replay_id] = kept
    return known, others


def _old(replay_id: str) -> Note:
    text = f"the ledger of {replay_id} has no terms, because an earlier version began it: whether it is of this"
    return Note(NO_TERMS, f"{text} source and target is unknown")


def _lost(found: Sequence[str]) -> Note:
    return Note("lost-files", f"{said_of_lost(found)}; their offsets are counted as missing")


def _gone(replay_id: str, gone: Mapping[Slice, str]) -> Note:
    reasons = [*dict.fromkeys(gone[each] for each in sorted(gone))]
    text = (
        f"copies of {sum(map(len, gone)):,} offsets of {replay_id} are gone, and count as missing"
    )
    return Note("lost-copies", f"{text}: {'; '.join(reasons[:_MOST_REASONS])}")


def _left(replay_id: str, differences: Sequence[str]) -> Note:
    text = f"ignoring the ledger of {replay_id}, which has other terms: {differences[0]}"
    return Note("other-ledger", text)


_ONLY_LEDGER = Note(
    "only-ledger",
    "a ledger knows only what its replay committed, not what others wrote or deleted since",
)


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
    theirs = [run for run in Journal().runs() if _is_theirs(run, request, facts)]
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
    left = remaining(gaps, [entry.slice for entry in touching])
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


def _is_theirs(run: JournalEntry, request: Request, facts: SourceFacts) -> bool:
    """Return whether a run went from this source, as it is now, to this target."""
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
    text = f"replays left out {count:,} records: filtered, outside their span, or refused"
    return [Note("left-out", text, "info")]


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
