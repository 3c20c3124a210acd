"""Finds what other replays and pipelines have copied into the same topics already, by the target's own ledger."""

from collections.abc import Sequence
from dataclasses import dataclass

from playhead.endpoint import system_of
from playhead.grammar.instant import show_ms
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.plan import Plan
from playhead.record import Slice
from playhead.target import CommonLedger, Target
from playhead.terms import Terms, differing_ends

COPIED_BEFORE = "copied-before"
_MOST_SAID = 3


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


def earlier_copies(target: Target, plan: Plan) -> list[EarlierCopy]:
    """Those with the same source topics and the same target topics, by their ids, the latest first.

    A replay that the ledger knows itself goes on with what it has begun.
    """
    into = system_of(plan.request.target_endpoint)
    if into.kind != "topic" or not isinstance(target, CommonLedger):
        return []
    now = plan.terms()
    known = target.replays_of([*now.topics])
    if plan.replay_id in known:
        return []
    # Where dead letters go back to, their own headers say.
    places = {} if plan.request.redrive else target.whereto(now.topics)
    now = Terms("", now.source, now.topics, now.target, {}, places=places)
    planned = [slice_ for each in plan.partitions if (slice_ := each.slice()) is not None]
    copies = [
        _copy(replay_id, terms, entries, planned)
        for replay_id, (terms, entries) in known.items()
        if _goes_there(terms, now) and _may_share_times(terms, plan)
    ]
    found = [each for each in copies if each.offsets]
    return sorted(found, key=lambda each: (-(each.made_at_ms or 0), each.replay_id))


def said_of(copies: Sequence[EarlierCopy]) -> str:
    """In one line."""
    more = f"; and {len(copies) - _MOST_SAID} more" if len(copies) > _MOST_SAID else ""
    return "; ".join(map(str, copies[:_MOST_SAID])) + more


def _copy(
    replay_id: str, terms: Terms, entries: Sequence[Entry], planned: Sequence[Slice]
) -> EarlierCopy:
    written = [entry.slice for entry in entries if entry.written]
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
