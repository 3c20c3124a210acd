"""Runs a pipeline's rounds as Spark delivers them: writes what is due, waits, or drops."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING
from uuid import uuid4

from playhead.errors import Unavailable
from playhead.extra_fields import MOST_NAMES, ExtraFields
from playhead.host.clock import sleep_unless
from playhead.host.faults import abort_point
from playhead.live.backoff import RepeatedNotice, server_backoff
from playhead.live.pipeline_spec import PipelineSpec
from playhead.live.progress import PipelineProgress, still_lost
from playhead.live.start_offsets import ledger_ends
from playhead.live.target_lock import TargetLock
from playhead.record import Slice
from playhead.replay.assemble import Wiring
from playhead.replay.pipelines import DROPPING, RUNNING, WAITING, pipeline_id
from playhead.source import TopicPartition
from playhead.spark.failures import OutOfReach, TaskFailed, is_of_a_record
from playhead.target import Fenced
from playhead.task.raising_records import RaisingRecords, WhyNot, until_stopped
from playhead.task.round import Outcome, Round
from playhead.task.slicer import Filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Either another run of the pipeline fences this one, again and again, or a writer of its own did that
# was taken for dead. Such a one does not come twice.
_FENCED_AGAIN_WITHIN_S = 3600.0
# From this many records in one round, a task for each partition is faster than one task.
_WORTH_SEVERAL = 50_000


@dataclass(slots=True)
class PipelineContext:
    """What the rounds of a pipeline share, from one query to the next."""

    wish: PipelineSpec
    ends: Wiring
    standing: PipelineProgress
    stop_file: Path
    say: Callable[[str], None]
    hold: TargetLock
    move_group: Callable[[Mapping[TopicPartition, int]], None]
    slots: int
    first_start: Callable[[TopicPartition], int | None] = lambda _: None
    """Where the pipeline first began in a partition, if it is known."""
    refusal: Callable[[], BaseException | None] = lambda: None
    """Why the pipeline must stop, as found by another thread."""
    run: str = field(default_factory=lambda: uuid4().hex)
    fenced_at: float | None = None
    """When another writer of the pipeline last shut this one out, by the monotonic clock."""

    def is_stopped(self) -> bool:
        """Return whether a stop was requested."""
        return self.stop_file.exists()

    @property
    def decodes_first(self) -> bool:
        """Return whether expressions read values, so that they must be decoded before; else the writer decodes."""
        request = self.wish.request
        return self.ends.decoding is not None and request.spec.is_transformed


@dataclass(slots=True)
class Engine:
    """What the rounds need from the engine: a round's end, and its writing."""

    ends: Callable[[int], Mapping[TopicPartition, int]]
    write: Callable[["DataFrame", Round], list[Outcome]]
    read: Callable[[Round, RaisingRecords], list[Outcome]]
    """Reads the round with our own reader and writes it, without the records for which an expression raises."""
    why_not: WhyNot
    """Says why an expression raises for records."""
    write_rest: Callable[[Round], list[Outcome]]
    has_died: Callable[[], bool]


class Rounds:
    """The rounds of one query; Spark calls it in a thread, one round after the other."""

    def __init__(
        self, ground: PipelineContext, engine: Engine, *, begins_without_spark: bool = False
    ) -> None:
        """Make the loop; the records of its first round may be too large for Spark's reader."""
        self._ground, self._engine = ground, engine
        self._standing = ground.standing
        self._writer_id: str | None = None
        self._busy = Lock()
        self._told = RepeatedNotice()
        self._backoff = server_backoff()
        self._is_first = True
        self._is_odd = False
        self._is_large = begins_without_spark
        self.is_over = Event()
        self.failure: BaseException | None = None

    def __call__(self, frame: "DataFrame", number: int) -> None:
        """Run one round. Raise nothing: Spark would print the error too."""
        with self._busy:
            if self.is_over.is_set():
                return
            try:
                self._play(frame, self._engine.ends(number))
            except BaseException as exc:  # noqa: BLE001  raised again in the pipeline's own thread
                self.failure = exc
                self.is_over.set()

    def finish(self, within_s: float) -> None:
        """Let the current round end; no other one follows."""
        if self._busy.acquire(timeout=within_s):
            self.is_over.set()
            self._busy.release()
        self.is_over.set()

    def _is_stopped(self) -> bool:
        return self.is_over.is_set() or self._ground.is_stopped()

    def _play(self, frame: "DataFrame", ends: Mapping[TopicPartition, int]) -> None:
        standing = self._standing
        while not self._is_stopped():
            away = self._away_still() or self._try(frame, standing.due(ends))
            abort_point("live.round_written")
            if self._is_stopped():
                break
            if away is not None:
                self._ride_out(away, ends)
            elif not standing.due(ends):
                self._went_well()
            if not standing.due(ends):
                break
        self._ground.move_group(standing.at)

    def _try(self, frame: "DataFrame", due: Sequence[Slice]) -> str | None:
        """Write what is due; return the outage that prevented it, if any."""
        if not due:
            return None
        round_ = self._round(due)
        try:
            outcomes = self._written(frame, round_)
            away = self._noted(outcomes)
            if not round_.is_alone and all(each.is_whole for each in outcomes):
                # The tasks have seen everything that Spark read: the rest holds no record.
                left = self._standing.due({(s.topic, s.partition): s.to_offset for s in due})
                if left:
                    away = self._noted(self._engine.write_rest(self._round(left, is_alone=True)))
        except Unavailable as exc:
            if self._engine.has_died():
                raise
            self._writer_id, away = None, str(exc)
        return away

    def _written(self, frame: "DataFrame", round_: Round) -> list[Outcome]:
        if self._is_large:
            return self._read(round_)
        try:
            return self._engine.write(frame, round_)
        except TaskFailed as exc:
            if isinstance(exc, OutOfReach):
                if not self._is_odd:
                    self._ground.say(
                        "a time or a header's name is out of Spark's range: reading such rounds without Spark"
                    )
                self._is_odd = True
            elif not self._may_raise(exc):
                raise
        return self._read(round_)

    def _may_raise(self, exc: TaskFailed) -> bool:
        """Return whether a record may have failed the round for which an expression raises."""
        return self._ground.wish.request.spec.is_transformed and is_of_a_record(exc)

    def _read(self, round_: Round) -> list[Outcome]:
        """Read a failed round ourselves and write it; reject the records for which an expression raises."""
        raising = RaisingRecords(self._ground.say)
        while True:
            self._writer_id = None
            if self._is_stopped():
                # Not as if all was written: what is left would be taken for absent.
                return [Outcome(away="a stop was requested")]
            # Records before that one may have been committed.
            if (away := self._ledger_away()) is not None:
                return [Outcome(away=away)]
            left = self._standing.due({(s.topic, s.partition): s.to_offset for s in round_.slices})
            if not left:
                return []
            rest = self._round(left, is_alone=True)
            try:
                return self._engine.read(rest, raising)
            except TaskFailed as exc:
                if not self._may_raise(exc) or not self._finds(raising, rest):
                    raising.refuse_too_many()
                    raise

    def _finds(self, raising: RaisingRecords, rest: Round) -> bool:
        why_not = until_stopped(self._engine.why_not, self._is_stopped)
        ends = self._ground.ends
        return raising.look_in(ends.source, ends.decoding, [rest.slices], Filter(), why_not)

    def _round(self, due: Sequence[Slice], *, is_alone: bool = False) -> Round:
        ground = self._ground
        target = ground.ends.target
        is_small = ground.slots == 1 or sum(map(len, due)) <= _WORTH_SEVERAL
        return Round(
            pipeline_id(ground.wish.name),
            ground.run,
            target,
            tuple(due),
            ground.wish.request.spec.on_error,
            ground.ends.dead_letters,
            None if ground.decodes_first else ground.ends.decoding,
            is_alone=is_alone or is_small or target.is_ordered,
            writer_id=self._writer_id,
            stop_file=ground.stop_file,
            source=ground.ends.source,
            committed=dict(self._standing.committed),
        )

    def _noted(self, outcomes: Sequence[Outcome]) -> str | None:
        known = self._standing.left_out
        self._standing.note(outcomes)
        self._say_left_out(known)
        self._say_unexplained(outcomes)
        if any(each.is_fenced for each in outcomes):
            self._note_fenced()
        away = next((each.away for each in outcomes if each.away is not None), None)
        self._writer_id = outcomes[0].writer_id if len(outcomes) == 1 and away is None else None
        if any(each.is_new for each in outcomes) and not self._is_first and away is None:
            # The previous connection was lost, and perhaps its lock.
            self._ground.hold.renew()
        self._is_first = False
        return away

    def _note_fenced(self) -> None:
        """Continue after another writer took this one's place; end if that happens again soon."""
        ground, now = self._ground, time.monotonic()
        if ground.fenced_at is not None and now - ground.fenced_at < _FENCED_AGAIN_WITHIN_S:
            raise Fenced(pipeline_id(ground.wish.name))
        ground.fenced_at = now
        ground.say(
            "another writer of this pipeline has fenced this one; continuing, and ending if it "
            "happens again within an hour"
        )

    def _say_left_out(self, known: ExtraFields) -> None:
        """Say which fields no column takes, when one is new: a column may have been dropped."""
        now = self._standing.left_out
        # Names of records could fill the terminal: no more than these are kept.
        if len(known.fields) < MOST_NAMES and now.fields.keys() - known.fields.keys():
            self._ground.say(f"fields that no column takes are left out: {now.text}")

    def _say_unexplained(self, outcomes: Sequence[Outcome]) -> None:
        for each in chain.from_iterable(outcome.written for outcome in outcomes):
            if each.unexplained:
                self._ground.say(
                    f"{each.topic}:{each.partition}: {each.unexplained:,} of the offsets "
                    f"{each.from_offset}-{each.to_offset} gave no record for an unknown reason; "
                    "records may have been lost in the log"
                )

    def _went_well(self) -> None:
        standing, say = self._standing, self._ground.say
        standing.rounds += 1
        self._is_large = False
        self._backoff.start_over()
        if standing.state in (WAITING, DROPPING):
            lag_s = self._told.lasted_s()
            lost = f"; {standing.lost_offsets:,} offsets are lost" if standing.lost else ""
            say(f"writing again after {lag_s:.1f} s{lost}")
            if standing.lost:
                request = self._ground.wish.request
                say(f"see what is missing with: playhead gaps {request.source} {request.target}")
        self._told.start_over()
        standing.state, standing.away = RUNNING, None

    # --- a server does not answer

    def _away_still(self) -> str | None:
        """Check the database first while records are dropped, so that none is read in vain."""
        if self._standing.state != DROPPING:
            return None
        return self._ledger_away()

    def _ledger_away(self) -> str | None:
        """Return why the ledger cannot be read; None if it was read, and the progress follows it."""
        ground = self._ground
        try:
            entries = ground.ends.target.entries(pipeline_id(ground.wish.name))
        except Unavailable as exc:
            return str(exc)
        self._standing.follow(ledger_ends(entries))
        self._standing.lost = still_lost(self._standing.lost, [each.slice for each in entries])
        return None

    def _ride_out(self, away: str, ends: Mapping[TopicPartition, int]) -> None:
        """Wait until a retry makes sense; or drop the round, if that is allowed."""
        self._writer_id = None
        still = self._ledger_away()
        if still is None and self._backoff.next_s == 0:
            self._backoff.take()  # A worker or a connection was lost: the next one may work.
            return
        if still is not None and self._ground.wish.drop_when_down:
            self._drop(still, self._standing.due(ends))
            return
        self._wait(still or away)

    def _drop(self, away: str, due: Sequence[Slice]) -> None:
        standing = self._standing
        standing.state, standing.away = DROPPING, away
        standing.give_up(due)
        abort_point("live.given_up")
        if self._told.is_time():
            lost = standing.lost_offsets
            self._ground.say(f"DROPPING records that arrive, {lost:,} offsets are lost: {away}")

    def _wait(self, away: str) -> None:
        """Wait until the ledger can be read, or a stop is requested."""
        standing = self._standing
        standing.state = WAITING
        reason: str | None = away
        while reason is not None and not self._is_stopped():
            standing.away = reason
            if self._told.is_time():
                self._ground.say(f"{self._told.since()}; no progress is lost: {reason}")
            sleep_unless(self._is_stopped, self._backoff.take())
            reason = self._ledger_away()
        if not self._is_stopped():
            self._ground.hold.renew()
