"""Compares a span with a ledger: which of its offsets the replays and pipelines of a target have committed."""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from playhead.endpoint import system_of
from playhead.errors import Refused
from playhead.gaps.gap import touching
from playhead.gaps.lost_from_log import Committed
from playhead.gaps.missing import MissingOffsets, is_theirs
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.replay.assemble import Wiring
from playhead.replay.begun_replays import NotBegun
from playhead.replay.guards import KeepsCopies, lost_copies, refuse_lost_rows, said_of_lost
from playhead.replay.journal import Journal, on_unreadable
from playhead.request import Request
from playhead.source import SourceFacts, TopicPartition
from playhead.target import Archives, CommonLedger, KeepsFiles, Target
from playhead.terms import NO_TERMS, OtherTerms, Terms, UnknownTerms, differing_ends

_MOST_REASONS = 3


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
    notes = [_ONLY_LEDGER, *itertools.starmap(_left, others.items())]
    notes += [_old(each) for each in old if theirs[each]]
    notes += on_unreadable(unreadable)
    for replay_id, found in theirs.items():
        notes += refuse_lost_rows(ends.target, replay_id, found, is_run=False)
    lost = ends.target.lost_files(entries) if isinstance(ends.target, KeepsFiles) else {}
    notes += [_lost([lost[each] for each in sorted(lost)])] if lost else []
    held: list[_Held] = []
    for replay_id, found in theirs.items():
        gone = lost_copies(ends.target, found) if isinstance(ends.target, KeepsCopies) else {}
        notes += [_gone(replay_id, gone)] if gone else []
        # What one replay has lost, another may have written again.
        absent = [*gone, *(entry.slice for entry in found if entry.slice in lost)]
        held += _of_entries(replay_id, kept[replay_id], request, found, absent, spans)
    sure = [part for each in held if not each.undecided for part in each.parts]
    everything = [part for each in held for part in each.parts]
    undecided, told = _undecided(held, spans, sure)
    committed = [
        Committed(each, terms, theirs[each]) for each, terms in kept.items() if terms is not None
    ]
    return MissingOffsets(
        remaining(spans, everything),
        by,
        notes=[*notes, *_left_out(held), *told],
        committed=committed,
        undecided=undecided,
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """The offsets of an entry that are in the target, or were left out on purpose."""

    replay_id: str
    parts: Sequence[Slice]
    left_out: int
    """Records that were filtered or refused."""
    filtered: int = 0
    """Records that only the replay's own --where left out."""
    outside: int = 0
    """Records outside of the replay's span, at offsets that the entry does not list."""

    @property
    def undecided(self) -> int:
        return self.filtered + self.outside


def _of_entries(
    replay_id: str,
    terms: Terms | None,
    request: Request,
    entries: Sequence[Entry],
    absent: Sequence[Slice],
    spans: Sequence[Slice],
) -> Iterator[_Held]:
    filters_others = terms is not None and terms.filters_others(request.where)
    is_asked, lost = touching(spans), _Runs(absent)
    for entry in entries:
        if not is_asked(entry.slice):
            continue
        parts = remaining(entry.of_its_span(), lost.touching(entry.slice))
        by_where = entry.filtered_by_where if filters_others else 0
        outside = 0 if entry.lists_outside else entry.outside
        left_out = entry.filtered - by_where + entry.dead + entry.skipped
        yield _Held(replay_id, parts, left_out, by_where, outside)


def _undecided(
    held: Sequence[_Held], spans: Sequence[Slice], sure: Sequence[Slice]
) -> tuple[int, list[Note]]:
    """Return how many records may be missing, although a ledger has their offsets, and notes on the reasons."""
    if not any(each.undecided for each in held):
        return 0, []
    found, doubted = 0, list[Slice]()
    filtered, outside = dict[str, int](), dict[str, int]()
    unsure = remaining(spans, sure)
    runs = _Runs(unsure)
    for each in held:
        if not (each.undecided and (at_most := sum(map(runs.count, each.parts)))):
            continue
        found += min(each.undecided, at_most)
        doubted += each.parts
        for counts, count in ((filtered, each.filtered), (outside, each.outside)):
            if count:
                counts[each.replay_id] = counts.get(each.replay_id, 0) + count
    # Several entries may have the same offsets.
    found = min(found, sum(map(len, unsure)) - sum(map(len, remaining(unsure, doubted))))
    notes = [
        Note(
            "other-transform",
            f"{replay_id} has, or had, another --where, and left out {count:,} records of its slices: they may be "
            "missing; pass the same --where to compare with what it should have written",
        )
        for replay_id, count in filtered.items()
    ]
    notes += [
        Note(
            "outside-unlisted",
            f"the ledger of {replay_id} does not list which {count:,} records of its slices were outside of its "
            "span: they may be missing; playhead verify SOURCE TARGET reads both ends",
        )
        for replay_id, count in outside.items()
    ]
    return found, notes


class _Runs:
    """Offsets, to be found by those of an entry; there may be as many runs as records."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self._runs: dict[TopicPartition, list[Slice]] = {}
        for each in sorted(slices):
            its = self._runs.setdefault(each.place, [])
            last = its.pop() if its and its[-1].to_offset >= each.from_offset else each
            its.append(replace(last, to_offset=max(last.to_offset, each.to_offset)))

    def touching(self, slice_: Slice) -> Iterator[Slice]:
        its = self._runs.get(slice_.place, [])
        first = bisect_right(its, slice_.from_offset, key=lambda each: each.to_offset)
        for at in range(first, len(its)):
            if its[at].from_offset >= slice_.to_offset:
                break
            yield its[at]

    def count(self, slice_: Slice) -> int:
        """Return how many offsets of the slice are among them."""
        first, end = slice_.from_offset, slice_.to_offset
        parts = self.touching(slice_)
        return sum(min(end, each.to_offset) - max(first, each.from_offset) for each in parts)


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
    found = [run.replay_id for run in runs if is_theirs(run, request, facts)]
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


def _left_out(held: Sequence[_Held]) -> list[Note]:
    count = sum(each.left_out for each in held)
    if not count:
        return []
    return [Note("left-out", f"replays left out {count:,} records: filtered or refused", "info")]
