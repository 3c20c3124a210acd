"""Runs Spark queries one after another: each starts from the ledger's end when both servers answer."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from playhead.errors import PlayheadError, Unavailable
from playhead.host.clock import Backoff, sleep_unless
from playhead.host.faults import abort_point
from playhead.live.backoff import RepeatedNotice, server_backoff
from playhead.live.lost_entries import SecondRowsUnknown, refuse_second_rows
from playhead.live.progress import LedgerWentBack
from playhead.live.round_loop import Engine, PipelineContext, Rounds
from playhead.live.start_offsets import Expired, ledger_ends, told_of_loss, topics_of
from playhead.replay.engine import Engine as Sessions
from playhead.replay.pipelines import RUNNING, WAITING, pipeline_id
from playhead.source import Bounds, TopicPartition
from playhead.task.same_topics import SameTopics

if TYPE_CHECKING:
    from playhead.spark.stream import Stream, StreamSpec

_LOOK_EVERY_S = 0.1
_ROUND_ENDS_WITHIN_S = 30.0
# More engine errors in a row, with both servers available, are not temporary.
_MOST_STRIKES = 3
_OURS = (PlayheadError, LedgerWentBack)


@dataclass(slots=True)
class Queries:
    """All queries of one start of a pipeline."""

    ground: PipelineContext
    sessions: Sessions
    folder: Path
    """The folder of Spark's checkpoint."""
    _strikes: int = 0
    _unanswered: int = 0
    _is_full: bool = False
    """Whether the engine has run out of memory, as it does with a large record."""
    _told: RepeatedNotice = field(default_factory=RepeatedNotice)
    _backoff: Backoff = field(default_factory=server_backoff)

    def play(self) -> None:
        """Run until a stop is requested, or everything available is read."""
        ground = self.ground
        while not ground.is_stopped():
            rounds = ground.standing.rounds
            try:
                self._play()
                return
            except (Unavailable, LedgerWentBack) as exc:
                why = str(exc)
            except PlayheadError as exc:
                why = self._judged(exc)
            if ground.standing.rounds != rounds:
                self._told.start_over()
                self._backoff.start_over()
                self._strikes = 0
            ground.standing.state, ground.standing.away = WAITING, why
            self._wait_for_both(why)

    def _judged(self, exc: PlayheadError) -> str:
        """Return why the engine failed if that is a broker outage; re-raise other errors.

        An engine error without a known cause is retried until it happens too often in a row.
        """
        from playhead.spark.failures import EngineFailed, EngineOutOfMemory

        if not isinstance(exc, EngineFailed):
            raise exc
        try:
            self._confirm_topics()
            self.ground.ends.source.bounds()
        except Unavailable as away:
            return str(away)
        self._is_full = isinstance(exc, EngineOutOfMemory)
        self._strikes += 1
        if self._strikes > _MOST_STRIKES:
            raise exc
        return str(exc)

    def _wait_for_both(self, why: str) -> None:
        """Wait until both servers answer; the next query starts from the ledger's end."""
        reason: str | None = why
        while reason is not None and not self.ground.is_stopped():
            if self._told.is_time():
                self.ground.say(f"{self._told.since()}; no progress is lost: {reason}")
            sleep_unless(self.ground.is_stopped, self._backoff.take())
            try:
                self._look_again()
                reason = None
            except Unavailable as exc:
                reason = str(exc)

    def _look_again(self) -> None:
        ground, standing = self.ground, self.ground.standing
        self._confirm_topics()
        entries = ground.ends.target.entries(pipeline_id(ground.wish.name))
        bounds = ground.ends.source.bounds()
        ledger = ledger_ends(entries)
        try:
            standing.follow(ledger)
        except LedgerWentBack as exc:
            again = self._again(ledger, bounds)
            self._refuse_second_rows(again)
            ground.say(f"{exc}; continuing from there")
            standing.read_again(again)
            standing.committed = {}
            standing.follow(ledger)
            # Or a start that this machine does not survive to see would continue from the group's old offsets.
            ground.move_group(standing.at)
        for place, held in bounds.items():
            standing.at.setdefault(place, held.earliest)
        ground.hold.renew()

    def _again(
        self, ledger: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]
    ) -> dict[TopicPartition, int]:
        """Return where each partition continues of which the ledger lost entries."""
        ground = self.ground
        again: dict[TopicPartition, int] = {}
        gone: dict[TopicPartition, tuple[int, int]] = {}
        for place, committed in ground.standing.committed.items():
            if ledger.get(place, 0) >= committed or place not in bounds:
                continue
            # A partition of which the ledger has nothing left is read again from where it began.
            at, earliest = ledger.get(place, ground.first_start(place)), bounds[place].earliest
            if at is not None and at < earliest:
                gone[place] = (at, earliest)
            again[place] = max(at or 0, earliest)
        if gone and not ground.wish.accept_loss:
            raise Expired(ground.wish.name, gone)
        for place, lost in gone.items():
            ground.say(told_of_loss(place, lost))
        return again

    def _refuse_second_rows(self, again: Mapping[TopicPartition, int]) -> None:
        """Refuse what would write rows twice; the ledger has just answered, so the table is not waited for."""
        ground = self.ground
        try:
            refuse_second_rows(ground.wish, ground.ends.target, ground.standing.committed, again)
        except Unavailable as exc:
            self._unanswered += 1
            if self._unanswered < _MOST_STRIKES:
                raise
            raise SecondRowsUnknown(ground.wish.name, reason=str(exc)) from exc
        self._unanswered = 0

    def _confirm_topics(self) -> None:
        """Refuse to start at the offsets of a topic that was created again."""
        with closing(
            SameTopics(pipeline_id(self.ground.wish.name), self.ground.ends.source)
        ) as same:
            same.confirm_all()

    def _play(self) -> None:
        """Run one query until it is stopped, has read everything, or fails."""
        from playhead.spark import failures, session
        from playhead.spark import stream as live
        from playhead.spark.run import why_not

        ground = self.ground
        self._confirm_topics()
        if not self.sessions.is_there:
            ground.say("starting the engine")
        # If it started in the main thread, PySpark would handle Ctrl-C itself.
        with ThreadPoolExecutor(1, thread_name_prefix="engine") as starting:
            spark = starting.submit(self.sessions.session).result().newSession()
        stream, tape = live.Stream(spark, self.folder), self._tape()
        engine = Engine(
            stream.ends,
            live.write_round,
            partial(live.read_round, spark, source=ground.ends.source, tape=tape),
            partial(why_not, spark, tape.transform),
            lambda round_: live.write_rest(spark, round_),
            session.has_died,
        )
        if self._is_full:
            ground.say(
                "the next round is read without Spark, because a record may be too large for it"
            )
        rounds = Rounds(ground, engine, begins_without_spark=self._is_full)
        self._is_full = False
        try:
            stream.start(pipeline_id(ground.wish.name), tape, rounds)
            abort_point("live.started")
            ground.standing.state, ground.standing.away = RUNNING, None
            ground.say(f"reading, a round every {ground.wish.trigger}")
            self._watch(stream, rounds)
        except _OURS:
            raise
        except Exception as exc:
            raise failures.failure(exc) from exc
        finally:
            rounds.is_over.set()
            stream.stop()

    def _tape(self) -> "StreamSpec":
        from playhead.spark.stream import StreamSpec

        wish, at = self.ground.wish, self.ground.standing.at
        source = topics_of(self.ground.ends.source)
        starts = {place: at.get(place, held.earliest) for place, held in source.bounds().items()}
        transform = wish.request.spec.transform
        decoding = self.ground.ends.decoding if self.ground.decodes_first else None
        return StreamSpec(source.connection, starts, transform, wish.trigger_ms, decoding)

    def _watch(self, stream: "Stream", rounds: Rounds) -> None:
        while True:
            failure = rounds.failure or self.ground.refusal()
            if failure is not None:
                raise failure
            if self.ground.is_stopped():
                rounds.finish(_ROUND_ENDS_WITHIN_S)
                return
            if not stream.is_active():
                if rounds.failure is not None:
                    raise rounds.failure
                return
            time.sleep(_LOOK_EVERY_S)
