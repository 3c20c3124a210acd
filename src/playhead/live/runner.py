"""Runs a pipeline from start to stop: one run at a time, from the ledger's end, with a stored status."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from playhead.config.guards import Consent, CopiedBefore
from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.host.clock import sleep_unless
from playhead.host.faults import abort_point
from playhead.inventory import Inventory
from playhead.kafka.read.source import KafkaSource
from playhead.live.backoff import RepeatedNotice, server_backoff
from playhead.live.group_progress import MovingGroup
from playhead.live.lag_watch import Watch
from playhead.live.log_cut import ReadLog, ReadLogWasCut, ReadUpTo
from playhead.live.pipeline_spec import PipelineSpec
from playhead.live.progress import PipelineProgress
from playhead.live.query_loop import Queries
from playhead.live.round_loop import PipelineContext
from playhead.live.start_offsets import (
    StartOffsets,
    beginning,
    first_starts,
    ledger_ends,
    refuse_forgotten,
    told_of_loss,
    told_of_passed,
    topics_of,
)
from playhead.live.target_lock import TargetLock
from playhead.plan import Plan
from playhead.record import Slice
from playhead.replay.api import Planned
from playhead.replay.assemble import Wiring, expecting
from playhead.replay.earlier_copies import copied_ahead, said_of
from playhead.replay.pipelines import DONE, FAILED, STOPPED, Pipeline, Pipelines, pipeline_id
from playhead.source import TopicPartition
from playhead.target import InUse
from playhead.task.same_topics import SameTopics


class PipelineInUse(Refused):
    """A pipeline of this name is already running."""

    def __init__(self, name: str, *, where: str) -> None:
        self.name, self.where = name, where
        super().__init__(
            f"live pipeline {name} is already running: {where}",
            hint=f"`playhead live --status {name}` shows its progress, --stop {name} stops "
            "it; another pipeline needs another --name",
        )


@dataclass
class Runner:
    """One start of a pipeline in this process."""

    wish: PipelineSpec
    planned: Planned
    pipelines: Pipelines
    say: Callable[[str], None]

    @property
    def _id(self) -> str:
        return pipeline_id(self.wish.name)

    @property
    def _plan(self) -> Plan:
        return self.planned.plan

    def run(self, *, consent: Consent = None) -> dict[str, Any]:
        """Run until a stop is requested or everything available is read; return the totals."""
        self.planned.agree(consent)
        try:
            return self._run()
        except InUse as exc:
            raise PipelineInUse(self.wish.name, where=exc.where) from exc

    def _run(self) -> dict[str, Any]:
        standing, both = PipelineProgress({}), self._ends()
        hold = TargetLock(both.target, self._id, self._tell, self._is_stopped)
        with self.pipelines.journal.held(self._id), hold:
            mark = self._mark()
            self.pipelines.refuse_other(mark)
            try:
                begun = self._begun(both, mark, hold)
                standing.at, standing.committed = dict(begun.starts), dict(begun.committed)
                self._play(both, standing, hold)
                standing.state = STOPPED if self._is_stopped() else DONE
            except BaseException as exc:
                standing.state = FAILED if isinstance(exc, Exception) else STOPPED
                standing.away = str(exc) or type(exc).__name__
                raise
            finally:
                self._note(standing.as_document() | {"lag": None, "at_ms": _now_ms()})
                self._note_committed(standing.committed)
        return {"name": self.wish.name, **standing.as_document()}

    def _play(self, both: Wiring, standing: PipelineProgress, hold: TargetLock) -> None:
        source = topics_of(both.source)
        note, read = partial(self._note_running, standing), self._read(source)
        with (
            MovingGroup(source.connection, self.wish.group, self._tell) as group,
            Watch(source, standing, note, self._tell, SameTopics(self._id, source), read) as watch,
        ):
            watch.unread = self._unread_topics
            if isinstance(both.target, Inventory):  # The ledger of topics has no such short answer.
                # By a new connection each time: after a failover, the former server may answer on an old one.
                watch.ledger = lambda: ledger_ends(both.target.entries(self._id))
            group.move(standing.at)
            engine = self.planned.engine
            stop_file = self.pipelines.journal.stop_file(self._id)
            ground = PipelineContext(
                self.wish,
                both,
                standing,
                stop_file,
                self._tell,
                hold,
                group.move,
                engine.slots,
                self._first_start,
                watch.objection,
            )
            Queries(ground, engine, self._stream_folder).play()
        if not self._is_stopped():  # A stop does not wait for brokers.
            self._confirm_end(read, standing)

    def _first_start(self, place: TopicPartition) -> int | None:
        mark = self.pipelines.get(self.wish.name)
        return mark.start(place) if mark is not None else None

    @property
    def _stream_folder(self) -> Path:
        return self.pipelines.folder(self.wish.name) / "stream"

    def _read(self, source: KafkaSource) -> ReadLog:
        def keep(read: ReadUpTo) -> None:
            with suppress(OSError):
                self.pipelines.note_read(self.wish.name, read)

        return ReadLog(self.wish.name, source, self.pipelines.read(self.wish.name), keep)

    def _unread_topics(self) -> set[str]:
        """Return the topics that match the source by now, beside those that this start reads."""
        return {*topics_of(self.planned.ends.source).names()} - {*self._plan.source.topics}

    def _note(self, status: Mapping[str, Any]) -> None:
        with suppress(OSError):  # A full disk here must not stop writing elsewhere.
            self.pipelines.note(self.wish.name, status)

    def _note_running(self, standing: PipelineProgress, status: Mapping[str, Any]) -> None:
        """Store the status, and what is committed: a killed pipeline must know it when it starts again."""
        self._note(status)
        self._note_committed(dict(standing.committed))

    def _tell(self, text: str) -> None:
        self.say(f"live {self.wish.name}: {text}")

    def _is_stopped(self) -> bool:
        return self.pipelines.journal.stop_file(self._id).exists()

    # --- the start

    def _ends(self) -> Wiring:
        both = self.planned.ends
        return replace(both, source=expecting(both.source, self._plan.source))

    def _mark(self) -> Pipeline:
        known = self.pipelines.get(self.wish.name)
        topics = self._plan.source.topics
        request = self.wish.request
        return Pipeline(
            self.wish.name,
            request.source,
            request.target,
            self._plan.source.identity,
            self._plan.target.identity,
            {topic: facts.topic_id or "" for topic, facts in topics.items()},
            self.wish.group,
            request.as_document(),
            _now_ms(),
            known.starts if known is not None else {},
            self.planned.servers,
        )

    def _begun(self, both: Wiring, mark: Pipeline, hold: TargetLock) -> StartOffsets:
        """Prepare everything that the first record needs; a known pipeline waits for its servers."""
        known = self.pipelines.get(self.wish.name)
        told, backoff = RepeatedNotice(), server_backoff()
        while True:
            try:
                hold.take()
                return self._begin(both, mark, known)
            except Unavailable as exc:
                if known is None or self._is_stopped():
                    raise
                if told.is_time():
                    self._tell(f"{told.since()} to start: {exc!s}")
                sleep_unless(self._is_stopped, backoff.take())

    def _note_committed(self, committed: Mapping[TopicPartition, int]) -> None:
        if committed:
            with suppress(OSError):
                self.pipelines.note_committed(self.wish.name, sum(committed.values()))

    def _begin(self, both: Wiring, mark: Pipeline, known: Pipeline | None) -> StartOffsets:
        refuse_forgotten(
            self.wish.name,
            lambda: both.target.entries(self._id),
            known=self.pipelines.committed(self.wish.name),
            file=self.pipelines.committed_file(self.wish.name),
        )
        for note in both.target.prepare(
            self._id, self._plan.target, self._plan.terms(is_endless=True)
        ):
            self._tell(note.text)
        abort_point("live.prepared")
        entries = both.target.entries(self._id)
        begun = beginning(
            self.wish,
            topics_of(both.source),
            known,
            entries,
            now_ns=time.time_ns(),
            timezone=self.planned.configuration.get("timezone") or "UTC",
        )
        self._refuse_cut(both, begun)
        self._refuse_copied(both, begun)
        starts: dict[str, dict[str, int]] = {}
        for (topic, number), at in first_starts(begun, known, entries).items():
            starts.setdefault(topic, {})[str(number)] = at
        self.pipelines.keep(replace(mark, starts=starts))
        self._note_committed(begun.committed)
        abort_point("live.marked")
        self._tell_beginning(begun, known)
        return begun

    def _refuse_cut(self, both: Wiring, begun: StartOffsets) -> None:
        """Refuse a log that lost records while the pipeline was stopped, unless that was accepted."""
        read = self._read(topics_of(both.source))
        try:
            read.confirm(begun.starts)
        except ReadLogWasCut as exc:
            if not self.wish.accept_loss:
                raise
            self._tell(f"LOST {exc.told}: lost by the log after it was read")
            read.forget()
            read.confirm(begun.starts)

    def _confirm_end(self, read: ReadLog, standing: PipelineProgress) -> None:
        """Refuse a log that lost records during a run that read everything; say if that is unknown."""
        try:
            read.confirm(standing.at)
        except ReadLogWasCut:
            raise
        except PlayheadError as exc:
            self._tell(f"whether the log still holds the records that were read is unknown: {exc}")

    def _refuse_copied(self, both: Wiring, begun: StartOffsets) -> None:
        """Refuse to write what a run has copied while the pipeline was stopped, such as one that filled a gap."""
        if self.planned.copies_again:
            return
        bounds = topics_of(both.source).bounds()
        ahead = [
            Slice(*place, at, bounds[place].stable_end)
            for place, at in begun.starts.items()
            if place in bounds and at < bounds[place].stable_end
        ]
        if copies := said_of(copied_ahead(both.target, self._plan, ahead)):
            raise CopiedBefore(f"the start of live pipeline {self.wish.name}", copies=copies)

    def _tell_beginning(self, begun: StartOffsets, known: Pipeline | None) -> None:
        from playhead.spark.stream import last_ends

        for place, lost in begun.skipped.items():
            self._tell(told_of_loss(place, lost))
        for place, passed in begun.passed.items():
            self._tell(told_of_passed(place, passed))
        if begun.passed:
            request = self.wish.request
            self._tell(f"see what is missing with: playhead gaps {request.source} {request.target}")
        if not begun.committed:
            where = f"from {self.wish.start}" if known is None else "at its first start"
            self._tell(f"the ledger is empty; starting {where}")
            return
        ended = last_ends(self._stream_folder)
        told = ""
        if ended is None:
            told = "; Spark's checkpoint is missing, and not needed"
        elif any(ended.get(place, at) != at for place, at in begun.committed.items()):
            told = "; ignoring Spark's checkpoint, which disagrees with the ledger"
        self._tell(
            f"continuing from the ledger, at {sum(begun.committed.values()):,} offsets{told}"
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
