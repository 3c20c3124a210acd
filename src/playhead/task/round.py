"""One round of a live pipeline: the slices that are due, and a task's part in writing them.

A task keeps its connection to the target for the next round, which follows soon. It knows only the
contract of targets, so it works equally in a Spark task and in a test with lists.
"""

import contextlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import uuid4

from playhead.account import Account, DeadLetter, ErrorRule, RecordRefused, WriteDeadLetters
from playhead.decoding import Decoder, Decoding, without_undecoded
from playhead.errors import PlayheadError, Stopped, Unavailable
from playhead.host.faults import abort_point
from playhead.record import Slice
from playhead.records import Records
from playhead.source import LazyExplainer, Source, TopicPartition
from playhead.target import AlreadyCommitted, InUse, Target, Writer
from playhead.task.job import DeadLetters, explain, seldom_collecting
from playhead.task.malloc import keep_memory
from playhead.task.same_topics import SameTopics
from playhead.task.slicer import Cutter, Filter, Limits, OpenSlice, ReadRun


@dataclass(frozen=True, slots=True)
class Round:
    """The offsets of each partition from the ledger's end to the round's end."""

    pipeline_id: str
    run: str
    """The start of the pipeline; connections of another start are not used again."""
    target: Target
    slices: tuple[Slice, ...]
    rule: ErrorRule = field(default_factory=ErrorRule)
    graveyard: DeadLetters | None = None
    decoding: Decoding | None = None
    limits: Limits = field(default_factory=Limits)
    is_alone: bool = True
    """Whether one task gets all records of the round, and so knows which offsets hold none."""
    desk: str | None = None
    """The previous writer. A target that keeps the slices of a partition in order fences all others."""
    stop_file: Path | None = None
    source: Source | None = None
    """The source, for the reasons of absent offsets and for the topics' ids."""

    def is_stopped(self) -> bool:
        """Return whether a stop was requested."""
        return self.stop_file is not None and self.stop_file.exists()


@dataclass(frozen=True, slots=True)
class RoundWritten:
    """The counts of one commit."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    read: int
    kept: int
    """The records that passed the transform: written or dead letters."""
    last_ms: int | None

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(slots=True)
class Outcome:
    """What a task reports of its part in a round; the ledger has its commits too."""

    desk: str | None = None
    is_new: bool = False
    """Whether the connection was opened in this round."""
    away: str | None = None
    """Why the task gave up for now."""
    is_whole: bool = False
    """Whether the task processed all its records."""
    written: list[RoundWritten] = field(default_factory=list)

    def as_document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Outcome":
        return cls(
            **{**document, "written": [RoundWritten(**each) for each in document["written"]]}
        )


@dataclass(slots=True)
class _OpenWriter:
    """An open target, and its dead-letter writer."""

    run: tuple[str, str]
    writer: Writer
    bury: WriteDeadLetters | None
    decoder: Decoder | None
    explainer: LazyExplainer
    same: SameTopics
    stack: ExitStack
    id: str = field(default_factory=lambda: uuid4().hex)
    is_new: bool = True

    def close(self) -> None:
        # The server that it would disconnect from is often gone.
        with contextlib.suppress(Exception):
            self.stack.close()


_kept: _OpenWriter | None = None
"""The connection that this process kept open after the last round."""


def write(round_: Round, drawn: Iterable[ReadRun]) -> Outcome:
    """Commit the records, one partition after the other, as far as they are due."""
    outcome = Outcome()
    stream = iter(drawn)
    try:
        keep_memory()
        with seldom_collecting():
            _Part(round_, outcome).write(stream)
        outcome.is_whole = True
    except Stopped:
        pass
    except (Unavailable, AlreadyCommitted) as exc:
        # An engine that restarts a lost task finds the slice committed.
        let_go()
        outcome.away = str(exc)
    except BaseException:
        let_go()
        raise
    for _ in stream:
        pass  # Read the rest, or the engine keeps a worker that has not read its input.
    return outcome


def let_go() -> None:
    """Close the connection that is kept for the next round."""
    global _kept  # noqa: PLW0603 - it outlives the task that opened it
    if _kept is not None:
        _kept.close()
        _kept = None


class _Part:
    """One task's part in a round."""

    def __init__(self, round_: Round, outcome: Outcome) -> None:
        self._round, self._outcome = round_, outcome
        self._due = {(each.topic, each.partition): each for each in round_.slices}
        self._seen: set[TopicPartition] = set()
        self._cutter = Cutter(round_.limits, Filter(), self._account)
        self._desk = self._usable() or self._opened()
        outcome.desk = self._desk.id

    def _account(self, slice_: Slice) -> Account:
        bury = self._bury if self._round.graveyard is not None else None
        return Account(slice_, self._round.rule, bury, is_endless=True)

    def _bury(self, slice_: Slice, letters: Sequence[DeadLetter]) -> int | None:
        # Looked up now, because the connection may have changed since the account was opened.
        return self._desk.bury(slice_, letters) if self._desk.bury is not None else None

    def _usable(self) -> _OpenWriter | None:
        kept, round_ = _kept, self._round
        if kept is None or kept.run != (round_.pipeline_id, round_.run):
            return None
        # Dead letters go to a topic, whatever the target is; each partition has one writer there.
        is_ordered = round_.target.is_ordered or round_.graveyard is not None
        if is_ordered and kept.id != round_.desk:
            return None
        kept.is_new = False
        return kept

    def _opened(self) -> _OpenWriter:
        global _kept  # noqa: PLW0603
        let_go()
        round_ = self._round
        with ExitStack() as stack:
            grave = round_.graveyard
            bury = stack.enter_context(grave.open(round_.pipeline_id)) if grave else None
            writer = stack.enter_context(round_.target.open(round_.pipeline_id))
            decoder = round_.decoding.open() if round_.decoding is not None else None
            explainer = stack.enter_context(closing(LazyExplainer(round_.source)))
            same = stack.enter_context(closing(SameTopics(round_.pipeline_id, round_.source)))
            run = round_.pipeline_id, round_.run
            _kept = _OpenWriter(run, writer, bury, decoder, explainer, same, stack.pop_all())
        self._outcome.is_new = True
        return _kept

    def write(self, stream: Iterator[ReadRun]) -> None:
        for place, same in groupby(stream, lambda each: (each[0].topic, each[0].partition)):
            slice_ = self._due.pop(place, None)
            if place in self._seen:
                # Otherwise all offsets after its first part's last record would count as absent.
                raise ValueError(f"drawn: found {place[0]}:{place[1]} twice, needed it in one row")
            self._seen.add(place)
            if slice_ is not None:
                self._write_slice(slice_, self._decoded(_from(same, slice_.from_offset)))
        if self._round.is_alone:
            for slice_ in self._due.values():
                self._write_slice(slice_, ())

    def _decoded(self, drawn: Iterable[ReadRun]) -> Iterator[ReadRun]:
        for records, verdicts in drawn:
            decoder = self._desk.decoder
            yield (records if decoder is None else decoder.decoded(records)), verdicts

    def _write_slice(self, slice_: Slice, drawn: Iterable[ReadRun]) -> None:
        for portion in self._cutter.portions(slice_, drawn):
            if self._round.is_stopped():
                raise Stopped(f"stopped before {portion.account.slice}")
            abort_point("live.drawn")
            self._commit(portion)
            abort_point("live.committed")
            self._note(portion.account)

    def _commit(self, portion: OpenSlice) -> None:
        """Commit through an open connection of an earlier round first, then through a new one.

        A server that was restarted in between, or a table that was altered, does not stop the
        pipeline.
        """
        runs = self._read(portion)
        try:
            self._desk.writer.commit(portion.account, runs)
        except (AlreadyCommitted, InUse, RecordRefused):
            raise
        except PlayheadError:
            if self._desk.is_new:
                raise
            portion.account.start_over()
            self._desk = self._opened()
            self._outcome.desk = self._desk.id
            self._desk.writer.commit(portion.account, runs)

    def _read(self, portion: OpenSlice) -> list[Records]:
        """Return everything read, after confirming that it came from the expected topics."""
        topic = portion.account.slice.topic
        try:
            explain(portion.account, self._desk.explainer)
        except PlayheadError:
            self._desk.same.confirm(
                topic
            )  # This error says more than that the offsets cannot be read.
            raise
        runs = list(without_undecoded(portion.account, portion.runs))
        self._desk.same.confirm(topic)
        abort_point("live.confirmed")
        return runs

    def _note(self, account: Account) -> None:
        slice_, kept = account.slice, account.read - account.filtered
        place = slice_.topic, slice_.partition, slice_.from_offset, slice_.to_offset
        self._outcome.written.append(RoundWritten(*place, account.read, kept, account.last_ms))


def _from(drawn: Iterable[ReadRun], first: int) -> Iterator[ReadRun]:
    """Yield the records without those that the ledger already has."""
    for records, verdicts in drawn:
        at = bisect_left(records.offsets, first)
        if at < len(records):
            yield records.cut(at, len(records)), verdicts[at:] if verdicts is not None else None
