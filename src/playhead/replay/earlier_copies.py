"""Finds what other replays and pipelines have written into the same topics or tables, by the target's own ledger."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from playhead.endpoint import system_of
from playhead.errors import PlayheadError, Unavailable
from playhead.grammar.instant import show_ms
from playhead.inventory import DescribesTables, HeldOffsets, Inventory
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.plan import Plan
from playhead.record import Slice
from playhead.replay.guards import lost_copies
from playhead.target import CommonLedger, Target
from playhead.terms import Terms, differing_ends, differing_topics

COPIED_BEFORE, COPIED_MEANWHILE = "copied-before", "copied-meanwhile"
_MOST_SAID = 3
_TOPIC = "_topic"


@dataclass(frozen=True, slots=True)
class EarlierCopy:
    """A replay or pipeline whose records a plan would write a second time."""

    replay_id: str
    offsets: int
    """How many of the planned offsets it has committed."""
    made_at_ms: int | None
    """When it was planned; None of a pipeline, and where the ledger does not keep the plan."""
    is_pipeline: bool

    def __str__(self) -> str:
        kind = "pipeline" if self.is_pipeline else "run"
        planned = "" if self.made_at_ms is None else f" at {show_ms(self.made_at_ms)}"
        return f"{kind} {self.replay_id} copied {self.offsets:,} of these offsets{planned}"

    def note(self, into: str) -> Note:
        text = f"{self} into {into}; this plan writes their records there a second time"
        return Note(COPIED_BEFORE, text)

    def note_of_table(self, into: str) -> Note:
        text = f"{self} into {into}, which has no key: this plan writes the rows that are still there a second time"
        return Note(COPIED_BEFORE, text)


def earlier_copies(target: Target, plan: Plan, *, is_agreed: bool = False) -> list[EarlierCopy]:
    """Those with the same source topics and the same target topics, by their ids, the latest first.

    Of a replay that has begun, only what it still lacks counts. With `is_agreed`, somebody has agreed to this
    plan before, and so to the copies that it names.
    """
    known = _known(target, plan)
    _, own = known.pop(plan.replay_id, (None, ()))
    lacking = remaining(plan.slices(), [entry.slice for entry in own])
    return _copies(target, plan, _not_named(plan, known) if own or is_agreed else known, lacking)


def appended_by_others(target: Target, plan: Plan) -> str:
    """Say how many offsets a begun replay still lacks that its table has all the same, as after a filled gap.

    A table with a rule for conflicts keeps one row of a key; others would get a second row of each offset.
    """
    if not isinstance(target, Inventory) or plan.request.spec.table.on_conflict is not None:
        return ""
    begun = target.entries(plan.replay_id)
    left = remaining(plan.slices(), [entry.slice for entry in begun])
    topics = sorted({slice_.topic for slice_ in left})
    if not begun or not left or not target.has_offsets(topics):
        return ""
    if not target.columns_there(topics, [_TOPIC]):
        return ""  # the rows of another topic have the same offsets
    held = target.held_offsets(left)
    found = sum(map(held.count, topics))
    text = "of the offsets that it lacks are in the table already; playhead gaps SOURCE TARGET --replay"
    return f"{found:,} {text} writes only those that are missing" if found else ""


def appended_before(target: Target, plan: Plan) -> list[EarlierCopy]:
    """Return the runs that have written offsets of a new plan into a table that takes any row twice.

    The plan may be there to bring deleted rows back, so this is a note and no question.
    """
    found = _appended(plan, _tables(target, plan))
    return [] if found and _held(target, plan, lambda held: held.rows) == 0 else found


def copied_ahead(target: Target, plan: Plan, ahead: Sequence[Slice]) -> list[EarlierCopy]:
    """Return the runs that have written these offsets, which a pipeline is about to write."""
    known = _known(target, plan)
    known.pop(plan.replay_id, None)
    return _copies(target, plan, known, ahead)


def copied_meanwhile(target: Target, plan: Plan) -> list[Note]:
    """Return notes on others that wrote records of a finished replay too, and that its plan does not name."""
    try:
        known = _known(target, plan)
        known.pop(plan.replay_id, None)
        appended = _appended(plan, _not_named(plan, _tables(target, plan)))
        if appended and _held(target, plan, lambda held: held.duplicates) == 0:
            appended = []
    except Unavailable as exc:
        return [
            Note(COPIED_MEANWHILE, f"whether another run wrote the same records is unknown: {exc}")
        ]
    into = plan.request.target_endpoint.shown()
    found = [*_copies(target, plan, _not_named(plan, known), plan.slices()), *appended]
    text = "{} into {} too; their records are in {} more than once"
    return [Note(COPIED_MEANWHILE, text.format(each, into, into)) for each in found]


_Known = dict[str, tuple[Terms, Sequence[Entry]]]


def _known(target: Target, plan: Plan) -> _Known:
    into = system_of(plan.request.target_endpoint)
    if into.kind != "topic" or not isinstance(target, CommonLedger):
        return {}
    return dict(target.replays_of([*plan.terms().topics]))


def _tables(target: Target, plan: Plan) -> _Known:
    """Return the other replays of the same topics into tables that take any row twice."""
    if not isinstance(target, DescribesTables) or plan.request.spec.table.on_conflict is not None:
        return {}
    now = plan.terms()
    facts = target.table_facts(now.topics)
    if all(facts.keys.values()):
        return {}
    begun = {
        replay_id: terms
        for replay_id, terms in (facts.begun or {}).items()
        if replay_id != plan.replay_id
        and terms.source == now.source
        and not differing_topics(terms.topics, now.topics)
    }
    entries = target.entries_of([*begun])
    return {each: (terms, entries.get(each, ())) for each, terms in begun.items()}


def _appended(plan: Plan, known: _Known) -> list[EarlierCopy]:
    copies = [
        _copy(each, terms, _parts(entry for entry in entries if entry.written), plan.slices())
        for each, (terms, entries) in known.items()
        if _may_share_times(terms, plan)
    ]
    return _latest_first(copies)


def _held(target: Target, plan: Plan, count: Callable[[HeldOffsets], int]) -> int | None:
    """Count the rows of the planned offsets; None if they do not say which these are, or may not be read."""
    topics = sorted({slice_.topic for slice_ in plan.slices()})
    if not isinstance(target, Inventory) or not target.has_offsets(topics):
        return None
    try:
        return count(target.held_offsets(plan.slices()))
    except Unavailable:
        raise
    except PlayheadError:  # A user without the right to read it gets the note of the ledger.
        return None


def _not_named(plan: Plan, known: _Known) -> _Known:
    # The ID is the second word; that of another could be any of the words.
    named = [note.text.split()[1:2] for note in plan.notes if note.code == COPIED_BEFORE]
    return {each: of for each, of in known.items() if [each] not in named}


def _copies(
    target: Target, plan: Plan, known: _Known, planned: Sequence[Slice]
) -> list[EarlierCopy]:
    if not known or not isinstance(target, CommonLedger):
        return []
    now = plan.terms()
    # Where dead letters go back to, their own headers say.
    places = {} if plan.request.redrive else target.whereto(now.topics)
    now = Terms("", now.source, now.topics, now.target, {}, places=places)
    copies = [
        _copy(replay_id, terms, _still_there(target, entries, planned), planned)
        for replay_id, (terms, entries) in known.items()
        if _goes_there(terms, now) and _may_share_times(terms, plan)
    ]
    return _latest_first(copies)


def _latest_first(copies: Sequence[EarlierCopy]) -> list[EarlierCopy]:
    found = [each for each in copies if each.offsets]
    return sorted(found, key=lambda each: (-(each.made_at_ms or 0), each.replay_id))


def said_of(copies: Sequence[EarlierCopy]) -> str:
    """In one line."""
    more = f"; and {len(copies) - _MOST_SAID} more" if len(copies) > _MOST_SAID else ""
    return "; ".join(map(str, copies[:_MOST_SAID])) + more


def _still_there(target: Target, entries: Sequence[Entry], planned: Sequence[Slice]) -> list[Slice]:
    """Return what entries have written of a plan, without copies that are gone and may be written again."""
    written = [
        entry
        for entry in entries
        if entry.written and any(entry.slice.overlaps(each) for each in planned)
    ]
    if not written:
        return []
    return remaining(_parts(written), [*lost_copies(target, written)])


def _parts(written: Iterable[Entry]) -> list[Slice]:
    return [part for entry in written for part in entry.of_its_span()]


def _copy(
    replay_id: str, terms: Terms, written: Sequence[Slice], planned: Sequence[Slice]
) -> EarlierCopy:
    offsets = sum(map(len, planned)) - sum(map(len, remaining(planned, written)))
    made_at_ms = (terms.plan or {}).get("made_at_ms")
    return EarlierCopy(replay_id, offsets, made_at_ms, terms.is_endless)


def _goes_there(terms: Terms, now: Terms) -> bool:
    return bool(terms.places) == bool(now.places) and not differing_ends(terms, now)


def _may_share_times(terms: Terms, plan: Plan) -> bool:
    """Spans that follow on each other read the same offsets for late records, and write each record once."""
    kept = terms.plan or {}
    return not (
        _ends_before(kept.get("to_ms"), plan.from_ms)
        or _ends_before(plan.to_ms, kept.get("from_ms"))
    )


def _ends_before(to_ms: int | None, from_ms: int | None) -> bool:
    return to_ms is not None and from_ms is not None and to_ms <= from_ms
