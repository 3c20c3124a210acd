"""Runs a pipeline from its start to its stop: query after query of Spark's, each from the ledger on."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from playhead.errors import PlayheadError, Refused, Stopped, Unavailable
from playhead.faults import abort_point
from playhead.kafka.source import KafkaSource
from playhead.kafka.target import KafkaTarget
from playhead.live.beginning import Beginning, beginning, ledger_ends
from playhead.live.group import MovingGroup
from playhead.live.playing import Engine, Ground, Rounds
from playhead.live.standing import LedgerWentBack, Standing
from playhead.live.waiting import Told, Waits
from playhead.live.watching import Watch
from playhead.live.wish import Wish
from playhead.pipelines import (
    DONE,
    FAILED,
    RUNNING,
    STOPPED,
    WAITING,
    Pipeline,
    Pipelines,
    pipeline_id,
)
from playhead.plan import Plan
from playhead.replay.api import Planned
from playhead.replay.build import Ends, ends, expecting
from playhead.target import InUse
from playhead.transform import Transform

_LOOK_EVERY_S = 0.1
_ROUND_ENDS_WITHIN_S = 30.0
# The engine's own errors, with both servers there: more in a row than this are no accident.
_MOST_STRIKES = 3
# The server may take a while to notice that our own connection of before is gone.
_HELD_BY_A_GHOST_S = 120.0


@dataclass
class Runner:
    """One start of a pipeline in this process."""

    wish: Wish
    planned: Planned
    pipelines: Pipelines
    say: Callable[[str], None]
    servers: Mapping[str, str] = field(default_factory=dict)
    _hold: ExitStack = field(default_factory=ExitStack)
    _strikes: int = 0

    @property
    def _id(self) -> str:
        return pipeline_id(self.wish.name)

    @property
    def _plan(self) -> Plan:
        return self.planned.plan

    def run(self) -> dict[str, Any]:
        """Play until somebody asks to stop, or all is read that was there; says what was done."""
        try:
            return self._run()
        except InUse as exc:
            raise PipelineInUse(self.wish.name, where=exc.where) from exc

    def _run(self) -> dict[str, Any]:
        name, both = self.wish.name, self._ends()
        with self.pipelines.journal.held(self._id), self._hold:
            mark = self._mark()
            self.pipelines.refuse_other(mark)
            self._stop = self.pipelines.journal.stop_file(self._id)
            standing = Standing({})
            source = cast(KafkaSource, both.source)
            note = _noting(self.pipelines, mark)
            try:
                begun = self._begun(both, mark)
                standing.at, standing.committed = dict(begun.starts), dict(begun.committed)
                with (
                    MovingGroup(source.connection, self.wish.group, self._tell) as group,
                    Watch(source, standing, note, self._tell),
                ):
                    group.move(standing.at)
                    ground = Ground(
                        self.wish,
                        both,
                        standing,
                        self._stop,
                        self._tell,
                        lambda: self._renew_hold(both),
                        group.move,
                        self.planned.engine.slots,
                    )
                    self._until_over(ground)
                standing.state = STOPPED if self._is_stopped() else DONE
            except BaseException as exc:
                standing.state = FAILED if isinstance(exc, Exception) else STOPPED
                standing.away = str(exc) or type(exc).__name__
                raise
            finally:
                with suppress(OSError):
                    note(standing.as_document() | {"lag": None, "at_ms": _now_ms()})
        return {"name": name, **standing.as_document()}

    def _tell(self, text: str) -> None:
        self.say(f"live {self.wish.name}: {text}")

    def _is_stopped(self) -> bool:
        return self._stop.exists()

    # --- how it begins

    def _ends(self) -> Ends:
        both = ends(self.wish.request, self.planned.configuration)
        target = both.target
        if isinstance(target, KafkaTarget):
            # Each record leaves at once; the group is moved in one way for all targets.
            target = replace(target, is_paced=True, moves_group=False)
        return Ends(expecting(both.source, self._plan.source), target, both.graveyard)

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
            dict(self.servers),
        )

    def _begun(self, both: Ends, mark: Pipeline) -> Beginning:
        """Everything that must stand before the first record is read; a known pipeline waits for it."""
        known = self.pipelines.get(self.wish.name)
        told, waits = Told(), Waits()
        while True:
            try:
                return self._begin(both, mark, known)
            except Unavailable as exc:
                if known is None or self._is_stopped():
                    raise
                if told.is_time():
                    self._tell(f"{told.since()} to begin: {exc!s}")
                self._sleep(waits.take())

    def _begin(self, both: Ends, mark: Pipeline, known: Pipeline | None) -> Beginning:
        self._take_hold(both)
        both.target.prepare(self._id, self._plan.target)
        abort_point("live.prepared")
        begun = beginning(
            self.wish,
            cast(KafkaSource, both.source),
            known,
            both.target.entries(self._id),
            now_ns=time.time_ns(),
            timezone=self.planned.configuration.get("timezone") or "UTC",
        )
        starts: dict[str, dict[str, int]] = {}
        for (topic, number), at in begun.starts.items():
            starts.setdefault(topic, {})[str(number)] = at
        self.pipelines.keep(replace(mark, starts=starts))
        abort_point("live.marked")
        self._tell_beginning(begun, known)
        return begun

    def _tell_beginning(self, begun: Beginning, known: Pipeline | None) -> None:
        from playhead.spark.live import last_ends

        for (topic, number), (start, end) in begun.skipped.items():
            self._tell(f"LOST {topic}:{number}:{start}-{end}: expired before it was read")
        if not begun.committed:
            where = f"from {self.wish.start}" if known is None else "where it began"
            self._tell(f"the ledger has nothing yet; beginning {where}")
            return
        ended = last_ends(self.pipelines.folder(self.wish.name) / "stream")
        told = ""
        if ended is None:
            told = "; Spark's own notes are lost, and not needed"
        elif any(ended.get(place, at) != at for place, at in begun.committed.items()):
            told = "; Spark's own notes say otherwise and are set aside"
        self._tell(f"going on from the ledger, {sum(begun.committed.values()):,} offsets on{told}")

    def _take_hold(self, both: Ends) -> None:
        self._hold.close()
        self._hold.enter_context(both.target.hold(self._id))

    def _renew_hold(self, both: Ends) -> None:
        """After a connection was lost, and with it the lock."""
        until = time.monotonic() + _HELD_BY_A_GHOST_S
        told, waits = Told(), Waits()
        while not self._is_stopped():
            try:
                self._take_hold(both)
                return
            except Unavailable:
                return  # the next round meets it, too, and says so
            except InUse as exc:
                if time.monotonic() > until:
                    raise
                if told.is_time():
                    self._tell(f"{told.since()} for its lock: {exc!s}")
                self._sleep(waits.take())

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._is_stopped():
            time.sleep(_LOOK_EVERY_S)

    # --- while it runs

    def _until_over(self, ground: Ground) -> None:
        told, waits = Told(), Waits()
        while not self._is_stopped():
            rounds = ground.standing.rounds
            try:
                self._play(ground)
                return
            except (Unavailable, LedgerWentBack) as exc:
                why = str(exc)
            except PlayheadError as exc:
                why = self._judged(exc, ground)
            if ground.standing.rounds != rounds:
                told.start_over()
                waits.start_over()
                self._strikes = 0
            ground.standing.state, ground.standing.away = WAITING, why
            self._wait_for_both(ground, why, told, waits)

    def _judged(self, exc: PlayheadError, ground: Ground) -> str:
        """Why the engine failed: a broker that is away is waited for, and what is nobody's fault is not."""
        from playhead.spark.run import EngineFailed

        if not isinstance(exc, EngineFailed):
            raise exc
        try:
            ground.ends.source.bounds()
        except Unavailable as away:
            return str(away)
        self._strikes += 1
        if self._strikes > _MOST_STRIKES:
            raise exc
        return str(exc)

    def _wait_for_both(self, ground: Ground, why: str, told: Told, waits: Waits) -> None:
        """Until both servers answer; then the next query begins where the ledger ends."""
        reason: str | None = why
        while reason is not None and not self._is_stopped():
            if told.is_time():
                self._tell(f"{told.since()}, its place is kept: {reason}")
            self._sleep(waits.take())
            try:
                self._look_again(ground)
                reason = None
            except Unavailable as exc:
                reason = str(exc)

    def _look_again(self, ground: Ground) -> None:
        standing = ground.standing
        entries = ground.ends.target.entries(self._id)
        bounds = ground.ends.source.bounds()
        ledger = ledger_ends(entries)
        try:
            standing.follow(ledger)
        except LedgerWentBack as exc:
            self._tell(f"{exc}; going on from there")
            given_up = {(each.topic, each.partition): each.to_offset for each in standing.lost}
            standing.at |= {place: max(at, given_up.get(place, 0)) for place, at in ledger.items()}
            standing.committed = dict(ledger)
        for place, held in bounds.items():
            standing.at.setdefault(place, held.earliest)
        self._renew_hold(ground.ends)

    def _play(self, ground: Ground) -> None:
        """One query: until it is stopped, has read all, or fails."""
        from playhead.spark import live, run, session

        if not self.planned.engine.is_there:
            self._tell("starting the engine")
        spark = self.planned.engine.session().newSession()
        stream = live.Stream(spark, self.pipelines.folder(self.wish.name) / "stream")
        engine = Engine(
            stream.ends,
            live.write_round,
            lambda round_: live.write_rest(spark, round_),
            session.has_died,
        )
        rounds = Rounds(ground, engine)
        try:
            stream.start(self._id, self._tape(ground), rounds)
            abort_point("live.started")
            ground.standing.state, ground.standing.away = RUNNING, None
            self._tell(f"reading, a round every {self.wish.trigger}")
            self._watch(stream, rounds)
        except Stopped:
            return
        except Exception as exc:
            raise run.failure(exc) if not isinstance(exc, _OURS) else exc from exc
        finally:
            rounds.is_over.set()
            stream.stop()

    def _tape(self, ground: Ground) -> Any:
        from playhead.spark.live import Tape

        source = cast(KafkaSource, ground.ends.source)
        request = self.wish.request
        at = ground.standing.at
        starts = {place: at.get(place, held.earliest) for place, held in source.bounds().items()}
        transform = Transform(request.where, request.select)
        return Tape(source.connection, starts, transform, self.wish.trigger_ms)

    def _watch(self, stream: Any, rounds: Rounds) -> None:
        while True:
            if rounds.failure is not None:
                raise rounds.failure
            if self._is_stopped():
                rounds.finish(_ROUND_ENDS_WITHIN_S)
                return
            if not stream.is_active():
                if rounds.failure is not None:
                    raise rounds.failure
                return
            time.sleep(_LOOK_EVERY_S)


class PipelineInUse(Refused):
    """A pipeline of that name is at work already."""

    def __init__(self, name: str, *, where: str) -> None:
        self.name, self.where = name, where
        super().__init__(
            f"live pipeline {name} is at work already: {where}",
            hint=f"`playhead live --status {name}` shows how far it is, --stop {name} stops it; "
            "another pipeline needs another --name",
        )


_OURS = (PlayheadError, LedgerWentBack)


def _noting(pipelines: Pipelines, mark: Pipeline) -> Callable[[Mapping[str, Any]], None]:
    def note(status: Mapping[str, Any]) -> None:
        with suppress(OSError):
            pipelines.note(mark.name, status)

    return note


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
