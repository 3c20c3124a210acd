"""One round of a live pipeline: the slices that are due, and a task's part in writing them.

A task keeps its connection to the target for the next round, which follows soon. It knows only the
contract of targets, so it works equally in a Spark task and in a test with lists.
"""

import contextlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import uuid4

from playhead.absence import total
from playhead.account import Account, DeadLetter, ErrorRule, RecordRefused, WriteDeadLetters
from playhead.decoding import Decoder, Decoding, in_parts, without_undecoded
from playhead.errors import PlayheadError, Stopped, Unavailable
from playhead.extra_fields import ExtraFields
from playhead.host.collector import seldom_collecting
from playhead.host.faults import abort_point
from playhead.record import Slice
from playhead.records import Records
from playhead.source import LazyExplainer, Source, TopicPartition
from playhead.target import AlreadyCommitted, Fenced, InUse, Target, Writer
from playhead.task.job import DeadLetters
from playhead.task.malloc import keep_memory
from playhead.task.play import explain
from playhead.task.same_topics import SameTopics
from playhead.task.slicer import Filter, Limits, OpenSlice, ReadRun, Slicer


@dataclass(frozen=True, slots=True)
class Round:
    """The offsets of each partition from the ledger's end to the round's end."""

    pipeline_id: str
    run: str
    """The start of the pipeline; connections of another start are not used again."""
    target: Target
    slices: tuple[Slice, ...]
    rule: ErrorRule = field(default_factory=ErrorRule)
    dead_letters: DeadLetters | None = None
    decoding: Decoding | None = None
    limits: Limits = field(default_factory=Limits)
    is_alone: bool = True
    """Whether one task gets all records of the round, and so knows which offsets hold none."""
    writer_id: str | None = None
    """The previous writer. A target that keeps the slices of a partition in order fences all others."""
    stop_file: Path | None = None
    source: Source | None = None
    """The source, for the reasons of absent offsets and for the topics' ids."""
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the ledger ended when the pipeline saw it last: a restored target may have less."""

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
    written: int
    last_ms: int | None
    rejected: int = 0
    """The records that could not be written: dead letters, or skipped."""
    unexplained: int = 0
    """The offsets that gave no record for an unknown reason: records may have been lost there."""
    details: Mapping[str, int] = field(default_factory=dict)
    """What the entry counts beside the sums, such as rounded values."""
    left_out: Mapping[str, Any] = field(default_factory=dict)
    """The fields that no column takes, as its details have them."""

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(slots=True)
class Outcome:
    """What a task reports of its part in a round; the ledger has its commits too."""

    writer_id: str | None = None
    is_new: bool = False
    """Whether the connection was opened in this round."""
    away: str | None = None
    """Why the task gave up for now."""
    is_fenced: bool = False
    """Whether it gave up because a later writer has shut it out."""
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
    write_dead_letters: WriteDeadLetters | None
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


def write(round_: Round, runs_read: Iterable[ReadRun]) -> Outcome:
    """Commit the records, one partition after the other, as far as they are due."""
    outcome = Outcome()
    stream = iter(runs_read)
    try:
        keep_memory()
        with seldom_collecting():
            _Part(round_, outcome).write(stream)
        outcome.is_whole = True
    except Stopped:
        pass
    except (Unavailable, AlreadyCommitted, Fenced) as exc:
        # An engine that restarts a lost task finds the slice committed.
        let_go()
        outcome.away, outcome.is_fenced = str(exc), isinstance(exc, Fenced)
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
        self._committed = dict(round_.committed)
        self._seen: set[TopicPartition] = set()
        self._slicer = Slicer(round_.limits, Filter(), self._account)
        self._open_writer = self._usable() or self._opened()
        outcome.writer_id = self._open_writer.id

    def _account(self, slice_: Slice) -> Account:
        write_dead_letters = (
            self._write_dead_letters if self._round.dead_letters is not None else None
        )
        return Account(slice_, self._round.rule, write_dead_letters, is_endless=True)

    def _write_dead_letters(self, slice_: Slice, letters: Sequence[DeadLetter]) -> int | None:
        # Looked up now, because the connection may have changed since the account was opened.
        return (
            self._open_writer.write_dead_letters(slice_, letters)
            if self._open_writer.write_dead_letters is not None
            else None
        )

    def _usable(self) -> _OpenWriter | None:
        kept, round_ = _kept, self._round
        if kept is None or kept.run != (round_.pipeline_id, round_.run):
            return None
        # Dead letters go to a topic, whatever the target is; each partition has one writer there.
        is_ordered = round_.target.is_ordered or round_.dead_letters is not None
        if is_ordered and kept.id != round_.writer_id:
            return None
        kept.is_new = False
        return kept

    def _opened(self) -> _OpenWriter:
        global _kept  # noqa: PLW0603
        let_go()
        round_ = self._round
        with ExitStack() as stack:
            dead_letters = round_.dead_letters
            write_dead_letters = (
                stack.enter_context(dead_letters.open(round_.pipeline_id)) if dead_letters else None
            )
            writer = stack.enter_context(round_.target.open(round_.pipeline_id))
            decoder = round_.decoding.open() if round_.decoding is not None else None
            explainer = stack.enter_context(closing(LazyExplainer(round_.source)))
            same = stack.enter_context(closing(SameTopics(round_.pipeline_id, round_.source)))
            run = round_.pipeline_id, round_.run
            _kept = _OpenWriter(
                run, writer, write_dead_letters, decoder, explainer, same, stack.pop_all()
            )
        self._outcome.is_new = True
        return _kept

    def write(self, stream: Iterator[ReadRun]) -> None:
        for place, same in groupby(stream, lambda each: (each[0].topic, each[0].partition)):
            slice_ = self._due.pop(place, None)
            if place in self._seen:
                # Otherwise all offsets after its first part's last record would count as absent.
                raise ValueError(
                    f"runs_read: found {place[0]}:{place[1]} twice, needed it in one row"
                )
            self._seen.add(place)
            if slice_ is not None:
                self._write_slice(slice_, self._decoded(_from(same, slice_.from_offset)))
        if self._round.is_alone:
            for slice_ in self._due.values():
                self._write_slice(slice_, ())

    def _decoded(self, runs_read: Iterable[ReadRun]) -> Iterator[ReadRun]:
        for records, verdicts in runs_read:
            decoder, start = self._open_writer.decoder, 0
            if decoder is None:
                yield records, verdicts
                continue
            for part in in_parts(decoder, records):
                end = start + len(part)
                yield part, verdicts[start:end] if verdicts is not None else None
                start = end

    def _write_slice(self, slice_: Slice, runs_read: Iterable[ReadRun]) -> None:
        for open_slice in self._slicer.open_slices(slice_, runs_read):
            if self._round.is_stopped():
                raise Stopped(f"stopped before {open_slice.account.slice}")
            abort_point("live.drawn")
            self._commit(open_slice)
            abort_point("live.committed")
            self._note(open_slice.account)

    def _commit(self, open_slice: OpenSlice) -> None:
        """Commit through an open connection of an earlier round first, then through a new one.

        A server that was restarted in between, or a table that was altered, does not stop the
        pipeline.
        """
        runs, account = self._read(open_slice), open_slice.account
        account.follows = self._committed.get(account.slice.place)
        try:
            self._open_writer.writer.commit(account, runs)
        except (AlreadyCommitted, InUse, RecordRefused):
            raise
        except PlayheadError:
            if self._open_writer.is_new:
                raise
            account.start_over()
            self._open_writer = self._opened()
            self._outcome.writer_id = self._open_writer.id
            self._open_writer.writer.commit(account, runs)
        self._committed[account.slice.place] = account.slice.to_offset

    def _read(self, open_slice: OpenSlice) -> list[Records]:
        """Return everything read, after confirming that it came from the expected topics."""
        topic = open_slice.account.slice.topic
        try:
            explain(open_slice.account, self._open_writer.explainer)
        except PlayheadError:
            self._open_writer.same.confirm(
                topic
            )  # This error says more than that the offsets cannot be read.
            raise
        runs = list(without_undecoded(open_slice.account, open_slice.runs))
        self._open_writer.same.confirm(topic)
        abort_point("live.confirmed")
        return runs

    def _note(self, account: Account) -> None:
        slice_, entry = account.slice, account.entry
        assert entry is not None  # noqa: S101 - it was committed
        self._outcome.written.append(
            RoundWritten(
                slice_.topic,
                slice_.partition,
                slice_.from_offset,
                slice_.to_offset,
                account.read,
                entry.written,
                account.last_ms,
                entry.dead + entry.skipped,
                total(account.explained.unexplained),
                {name: each for name, each in entry.details.items() if type(each) is int},
                ExtraFields.of(entry.details).as_details(),
            )
        )


def _from(runs_read: Iterable[ReadRun], first: int) -> Iterator[ReadRun]:
    """Yield the records without those that the ledger already has."""
    for records, verdicts in runs_read:
        at = bisect_left(records.offsets, first)
        if at < len(records):
            yield records.cut(at, len(records)), verdicts[at:] if verdicts is not None else None
