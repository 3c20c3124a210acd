"""Refuses to run a plan if its source or target has been replaced."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from playhead.errors import PlayheadError, Refused
from playhead.ledger import Entry
from playhead.note import Note
from playhead.plan import Plan
from playhead.record import Slice
from playhead.source import KeepsEpochs, OutOfBounds, Source, TopicPartition
from playhead.target import KeepsFiles, Target
from playhead.task.dead_letter_check import are_counted
from playhead.written_rows import WrittenRows

_SHOWN = 3


class SourceReplaced(Refused):
    """The source at this address is not the planned one."""

    def __init__(self, what: str, *, planned: str, found: str, replay_id: str) -> None:
        super().__init__(
            f"replay {replay_id} was planned with {what} {planned}; found {found}",
            hint="name the servers of the plan (-b, --database, -c), or plan a new replay",
        )


class LogWasCut(Refused):
    """A leader without the last planned records was elected, or had its disk restored."""

    def __init__(self, plan: Plan, place: TopicPartition, *, cut_at: int) -> None:
        self.place, self.cut_at = place, cut_at
        super().__init__(
            f"{place[0]}:{place[1]} lost its records from offset {cut_at:,} on after replay {plan.replay_id} "
            "was planned, and other records may be at these offsets now, as after an unclean leader election "
            "or in a cluster that was restored from a copy",
            hint=f"playhead verify {plan.replay_id} compares what was written; plan a new replay for the rest",
        )


class TargetReplaced(Refused):
    """The target is not the planned one, and would get everything a second time."""

    def __init__(self, replay_id: str, *, planned: str, found: str) -> None:
        self.planned, self.found = planned, found
        super().__init__(
            f"replay {replay_id} was planned into {planned}; found the target {found}, whose "
            "ledger does not know this replay",
            hint="name the servers of the plan (-b, --database, -c), or plan a new replay",
        )


class LedgerForgot(Refused):
    """The target's ledger has fewer offsets of a replay than this machine has seen there."""

    def __init__(self, replay_id: str, *, known: int, found: int) -> None:
        self.replay_id, self.known, self.found = replay_id, known, found
        super().__init__(
            f"this machine's journal has {known:,} committed offsets of replay {replay_id}, "
            f"but the ledger of its target only {found:,}: the others would be written again",
            hint="find out whether the ledger was deleted or the target restored. If the "
            f"ledger is right for the present data: playhead resume {replay_id} "
            "--trust-ledger",
        )


class RestIsGone(PlayheadError):
    """Offsets that a replay has not written yet were deleted from the log."""

    def __init__(self, plan: Plan, gone: Slice, *, begins: int, left: int) -> None:
        self.slice, self.begins = gone, begins
        request = plan.request
        ends = f"{request.source_endpoint.shown()} {request.target_endpoint.shown()}"
        super().__init__(
            f"replay {plan.replay_id} cannot be completed: {gone} is still to be written, but the log begins "
            f"at offset {begins} now, because older records were deleted; {plan.planned - left:,} of "
            f"{plan.planned:,} offsets are committed, and stay",
            hint=f"playhead gaps {ends} --replay writes what the log still has, and names what is lost",
        )


class LostFiles(Refused):
    """Files that the ledger of a replay names are missing, or have another size."""

    def __init__(self, replay_id: str, *, found: Sequence[str]) -> None:
        self.replay_id, self.found = replay_id, tuple(found)
        super().__init__(
            f"replay {replay_id} was committed, but {said_of_lost(found)}",
            hint="restore the files from a copy, or archive their offsets again: "
            "playhead gaps SOURCE TARGET --replay",
        )


class LostCopies(Refused):
    """Copies of records that the ledger of a replay has are gone from their topics."""

    def __init__(self, replay_id: str, *, lost: Mapping[Slice, str]) -> None:
        self.replay_id, self.lost = replay_id, dict(lost)
        reasons = [*dict.fromkeys(lost[each] for each in sorted(lost))]
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        super().__init__(
            f"replay {replay_id} was committed, but copies of {sum(map(len, lost)):,} offsets are gone: "
            f"{'; '.join(reasons[:_SHOWN])}{more}",
            hint="they expired, were deleted, or are beyond the end of a log that was cut. Write them again: "
            f"playhead gaps SOURCE TARGET --ledger {replay_id} --replay; or plan a new replay",
        )


class LostRows(Refused):
    """Rows that the ledger of a replay has are gone from their tables."""

    def __init__(self, replay_id: str, *, reasons: Sequence[str]) -> None:
        self.replay_id, self.reasons = replay_id, tuple(reasons)
        super().__init__(
            f"replay {replay_id} was committed, but rows of it are gone: {'; '.join(reasons)}",
            hint="write their records again: playhead gaps SOURCE TARGET --by offsets --replay, or "
            "--by key --key COLS; or plan a new replay",
        )


class AlteredColumns(Refused):
    """Columns that a replay wrote are gone, or have another type."""

    def __init__(self, replay_id: str, *, reasons: Sequence[str]) -> None:
        self.replay_id, self.reasons = replay_id, tuple(reasons)
        shown = "; ".join(reasons[:_SHOWN])
        super().__init__(
            f"replay {replay_id} was committed, but its table was altered since: {shown}",
            hint="undo the change if the values are still there, as those of a renamed column are, "
            f"and resume; playhead verify {replay_id} compares the rows; or plan a new replay",
        )


@runtime_checkable
class KeepsRows(Protocol):
    """A target of rows, which vanish unseen if other programs drop, empty or alter where they lie."""

    def written_rows(self, entries: Sequence[Entry], /) -> WrittenRows:
        """Return what became of the rows of the entries."""
        ...


@runtime_checkable
class KeepsCopies(Protocol):
    """A target of topics, where records expire, and which other programs cut and create again."""

    def lost_copies(self, entries: Sequence[Entry], /) -> Mapping[Slice, str]:
        """Return the source's offsets whose copies are gone, with the reason; no record is read."""
        ...


@runtime_checkable
class KeepsLetters(Protocol):
    """A place for dead letters that other programs can empty, or create again."""

    def lost_letters(self, replay_id: str, /) -> Mapping[Slice, str]:
        """Return the offsets of records whose letters are gone, with the reason; no letter is read."""
        ...


def lost_letters(letters: object, replay_id: str, entries: Sequence[Entry]) -> list[Note]:
    """Return a note if dead letters that the ledger counts are gone, as after they were read and deleted."""
    if not (are_counted(entries) and isinstance(letters, KeepsLetters)):
        return []
    lost = letters.lost_letters(replay_id)
    if not lost:
        return []
    reasons = "; ".join([*dict.fromkeys(lost[each] for each in sorted(lost))][:_SHOWN])
    text = f"dead letters of {sum(map(len, lost)):,} offsets are counted, and are gone: {reasons}"
    return [Note("letters-lost", text)]


def said_of_lost(found: Sequence[str]) -> str:
    """Return a clause that names lost files."""
    shown = "; ".join(found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{len(found):,} files of its ledger are missing or changed: {shown}{more}"


def refuse_lost_files(target: Target, replay_id: str, entries: Sequence[Entry]) -> None:
    """Refuse to prove slices whose files are missing, or have another size."""
    if isinstance(target, KeepsFiles) and (lost := target.lost_files(entries)):
        raise LostFiles(replay_id, found=[lost[each] for each in sorted(lost)])


def lost_copies(target: Target, entries: Sequence[Entry]) -> Mapping[Slice, str]:
    """Return the source's offsets whose copies are gone; none of a target that is not a topic."""
    return target.lost_copies(entries) if isinstance(target, KeepsCopies) else {}


def refuse_lost_copies(target: Target, replay_id: str, entries: Sequence[Entry]) -> None:
    """Refuse to go on with a ledger whose copies are gone, and to prove it."""
    if lost := lost_copies(target, entries):
        raise LostCopies(replay_id, lost=lost)


def refuse_lost_rows(
    target: Target, replay_id: str, entries: Sequence[Entry], *, is_run: bool
) -> list[Note]:
    """Refuse to believe a ledger whose rows are gone; return notes on rows that may be.

    A run is also refused if columns are not what they were: its proof would stand over rows without
    their values.
    """
    lost, doubtful, altered, *_ = written_rows(target, entries)
    if lost:
        raise LostRows(replay_id, reasons=lost)
    if altered and is_run:
        raise AlteredColumns(replay_id, reasons=altered)
    text = (
        f"only playhead verify {replay_id}, which reads them, shows if all of them are still there"
    )
    notes = [Note("rows-in-doubt", f"{each}: {text}") for each in doubtful]
    return notes + altered_notes(altered)


def written_rows(target: Target, entries: Sequence[Entry]) -> WrittenRows:
    """Return what became of the rows of the entries; nothing is known of a target without rows."""
    return target.written_rows(entries) if isinstance(target, KeepsRows) else WrittenRows()


def altered_notes(altered: Sequence[str]) -> list[Note]:
    """Return a note for each change of a column that was written."""
    text = "the values that a replay wrote there cannot be compared any more"
    return [Note("columns-altered", f"{each}: {text}") for each in altered]


def refuse_less(replay_id: str, *, known: int, found: int, is_trusted: bool) -> list[Note]:
    """Refuse a ledger that has fewer committed offsets than this machine knows; if it is trusted, say so."""
    if found >= known:
        return []
    if not is_trusted:
        raise LedgerForgot(replay_id, known=known, found=found)
    text = (
        f"the ledger of replay {replay_id} had {found:,} committed offsets where this machine knows {known:,}, "
        "and was trusted: the others are written again. If the target was not restored together with its "
        f"ledger, it has their records twice; playhead verify {replay_id} tells"
    )
    return [Note("ledger-trusted", text)]


def refuse_another_target(target: Target, plan: Plan) -> list[Note]:
    """Refuse a target that is neither the planned one nor restored from it; return a note on a restored one.

    A ledger that knows the replay was copied from there, and so should be the committed data.
    """
    found = target.identity()
    if found == plan.target.identity:
        return []
    if not target.entries(plan.replay_id):
        raise TargetReplaced(plan.replay_id, planned=plan.target.identity, found=found)
    text = (
        f"the target is {found}, and the planned one was {plan.target.identity}: its ledger was copied from "
        f"there; only playhead verify {plan.replay_id}, which reads them, shows if the data were copied with it"
    )
    return [Note("target-copied", text)]


def refuse_another_source(source: Source, plan: Plan) -> None:
    """Refuse if the source at this address, or a topic of it, is not the planned one."""
    facts = source.facts()
    if facts.identity != plan.source.identity:
        raise SourceReplaced(
            "source", planned=plan.source.identity, found=facts.identity, replay_id=plan.replay_id
        )
    for topic, planned in plan.source.topics.items():
        found = facts.topics.get(topic)
        if planned.topic_id and found is not None and found.topic_id != planned.topic_id:
            raise SourceReplaced(
                f"topic {topic} of id",
                planned=planned.topic_id,
                found=str(found.topic_id),
                replay_id=plan.replay_id,
            )

    refuse_cut_logs(source, plan)


def refuse_cut_logs(source: Source, plan: Plan) -> None:
    """Refuse if planned offsets may have other records than when they were planned, by their leaders' epochs."""
    ends = {each.place: each.to_offset for each in plan.partitions if each.planned}
    epochs = {
        (topic, number): epoch
        for topic, facts in plan.source.topics.items()
        for number, epoch in facts.leader_epochs.items()
        if (topic, number) in ends
    }
    if not isinstance(source, KeepsEpochs):
        return
    for place, end in sorted(source.ends_of_epochs(epochs).items()):
        if end < ends[place]:
            raise LogWasCut(plan, place, cut_at=end)


def cut_meanwhile(source: Source, plan: Plan) -> list[Note]:
    """Refuse if planned records were lost while they were replayed; return a note if the source does not tell.

    All is committed: a source that is away, or refuses to say it, does not make the replay a failed one.
    """
    try:
        refuse_cut_logs(source, plan)
    except LogWasCut:
        raise
    except PlayheadError as exc:
        text = f"{exc}: whether the topics still hold the records that were read is unknown"
        return [Note("source-unknown", text)]
    return []


def has_topic_ids(plan: Plan) -> bool:
    """Return whether the plan names ids, which differ for a topic that was created again."""
    return any(each.topic_id for each in plan.source.topics.values())


def source_notes(source: Source, plan: Plan) -> list[Note]:
    """Return a note if a finished replay's topics were created again since, or may have been.

    The ledger proves what was written from the topics of then, and nothing about those of now.
    """
    if not has_topic_ids(plan):
        return []
    try:
        refuse_another_source(source, plan)
    except (SourceReplaced, LogWasCut) as exc:
        text = f"{exc}: the proof is of the records of then, and nothing was read of those of now"
    except PlayheadError as exc:
        text = f"{exc}: whether the topics are still the planned ones is unknown"
    else:
        return []
    return [Note("source-replaced", text)]


def refuse_what_is_gone(source: Source, plan: Plan, left: Sequence[Slice]) -> None:
    """Refuse if the planned topic was replaced, or if unread offsets are gone from it."""
    refuse_another_source(source, plan)
    bounds = source.bounds()
    for slice_ in left:
        held = bounds.get((slice_.topic, slice_.partition))
        if held is not None and slice_.from_offset < held.earliest:
            raise RestIsGone(plan, slice_, begins=held.earliest, left=sum(map(len, left)))
        if held is None or slice_.to_offset > held.stable_end:
            raise OutOfBounds(slice_, held)
