"""Spark as a live pipeline meets it: a query that reads topics in rounds, and workers that write them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import playhead.live.query_loop
import playhead.live.round_loop
import playhead.live.runner
import playhead.spark.run
import playhead.spark.session
import playhead.spark.stream
import playhead.spark.transform
import playhead.task.round
from playhead.records import Records
from playhead.spark import arrow_rows
from playhead.task.round import Round
from playhead.task.slicer import Limits
from simulation import threads
from simulation.engine import TaskLost, Work
from simulation.kafka_clients import Kafka
from simulation.kafka_cluster import Place
from simulation.scheduler import Process, Task

_AT_ONCE = 3
_LOST = "Python worker exited unexpectedly"


class SparkFailed(Exception):
    """What Spark raises, of which the product reads the text."""


def wire() -> None:
    """Once for this process: what only a Java process could do is done here."""
    live: Any = playhead.spark.stream
    live.shutil = SimpleNamespace(rmtree=lambda folder, ignore_errors: folder.clear())
    playhead.spark.run.without_pandas = nullcontext
    playhead.spark.transform.forgiving = nullcontext
    playhead.spark.session.has_died = lambda: False
    playhead.spark.session.tasks_are_ours = lambda _: False


def use(worth_several: int, records: int) -> None:
    """From how many records on a round is worth several tasks, and how many of them a slice has."""
    live: Any = playhead.live.round_loop
    live._WORTH_SEVERAL = worth_several
    live.Round = partial(Round, limits=Limits(max_records=records))


class Session:
    """As much of a session as is asked for; plans are made of its frames, and nothing else."""

    def __init__(self, engine: Any, kafka: Kafka, most_at_once: int, is_cluster: bool) -> None:
        self.engine, self.kafka = engine, kafka
        self.most_at_once = most_at_once
        """What a round takes at most of a partition."""
        self.most_attempts = 4 if is_cluster else 1
        self.conf = SimpleNamespace(set=lambda *_: None)
        self._idle: list[Process] = []

    def newSession(self) -> "Session":  # noqa: N802  its name is Spark's
        return self

    @property
    def readStream(self) -> "_Reading":  # noqa: N802
        return _Reading(self)

    def range(self, *_: int) -> "Frame":
        return Frame(self, ())

    # --- workers, which are used again by the next round

    def worker(self, name: str) -> Process:
        one = threads.scheduler()
        self._idle = [each for each in self._idle if not each.is_dead]
        if self._idle and one.choices.below(4) < 3:
            return self._idle.pop()
        return self.engine.worker(name)  # type: ignore[no-any-return]

    def spawned(self, process: Process, work: Callable[[], Any]) -> Task:
        task = threads.scheduler().spawn(process, work)
        task.greenlet = _Apart(task.greenlet, process)  # type: ignore[assignment]
        return task

    def is_believed_lost(self) -> bool:
        return bool(self.engine.is_believed_lost())

    def give_back(self, works: Sequence[Work]) -> None:
        self._idle += [work.processes[-1] for work in works]


@dataclass(frozen=True)
class Frame:
    """Ranges of partitions, and what is done with their records."""

    session: Session
    ranges: tuple[tuple[Place, int, int], ...]
    tasks: tuple[Any, ...] = ()
    is_one: bool = True
    options: Mapping[str, str] | None = None
    is_cancelled: Callable[[], bool] = lambda: False

    @property
    def sparkSession(self) -> Session:  # noqa: N802
        return self.session

    def selectExpr(self, *_: str) -> "Frame":  # noqa: N802
        return self

    def coalesce(self, _: int) -> "Frame":
        return replace(self, is_one=True)

    def mapInArrow(self, task: Any, _: Any) -> "Frame":  # noqa: N802
        return replace(self, tasks=(*self.tasks, task))

    @property
    def writeStream(self) -> "_Writing":  # noqa: N802
        return _Writing(self)

    def collect(self) -> list[Any]:
        """Have it done, by a worker for all or for each range; a failure is Spark's."""
        parts = [self.ranges] if self.is_one else [(each,) for each in self.ranges]
        works = [
            Work(
                self.session,
                "round",
                lambda part=part: self._work(part),  # type: ignore[misc]
                lambda part=part: str(part),  # type: ignore[misc]
                self.session.most_attempts,
            )
            for part in parts
        ]
        try:
            found = self.session.engine.played(works, self.is_cancelled)
        except TaskLost as exc:
            raise SparkFailed(_LOST) from exc
        except Exception as exc:
            raise SparkFailed(f"Job aborted due to stage failure: {exc}") from exc
        self.session.give_back(works)
        return [SimpleNamespace(report=text) for texts in found for text in texts]

    def _work(self, part: Sequence[tuple[Place, int, int]]) -> list[str]:
        given: Iterator[Any] = self._read(part) if part else iter([None])
        for task in self.tasks:
            given = task(given)
        return [text for batch in given for text in batch.column("report").to_pylist()]

    def _read(self, part: Sequence[tuple[Place, int, int]]) -> Iterator[Any]:
        """As Spark's own source does: what is not there any more ends the query."""
        one = threads.scheduler()
        for place, start, stop in part:
            at = start
            while at < stop:
                one.point()
                log = self.session.kafka.cluster.log(place)
                if log is None or at < log.start or log.stable_end(place) < stop:
                    raise SparkFailed(f"Cannot fetch offset {at} of {place}")
                held = [each for each in log.between(at, stop) if each.is_visible][:_AT_ONCE]
                at = held[-1].offset + 1 if len(held) == _AT_ONCE else stop
                if held:
                    yield arrow_rows.of(_records(place, held), 0, None)


def _records(place: Place, held: Sequence[Any]) -> Records:
    return Records(
        *place,
        [each.offset for each in held],
        [each.timestamp_ms for each in held],
        [each.timestamp_type for each in held],
        [each.key for each in held],
        [each.value for each in held],
        [each.headers for each in held],
    )


class _Reading:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._options: Mapping[str, str] = {}

    def format(self, _: str) -> "_Reading":
        return self

    def options(self, **options: str) -> "_Reading":
        self._options = options
        return self

    def load(self) -> Frame:
        return Frame(self._session, (), is_one=False, options=self._options)


class _Writing:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._folder: Any = None
        self._on_round: Any = None
        self._trigger: Mapping[str, Any] = {}

    def foreachBatch(self, on_round: Any) -> "_Writing":  # noqa: N802
        self._on_round = on_round
        return self

    def queryName(self, _: str) -> "_Writing":  # noqa: N802
        return self

    def option(self, _: str, folder: Any) -> "_Writing":
        self._folder = folder
        return self

    def trigger(self, **trigger: Any) -> "_Writing":
        self._trigger = trigger
        return self

    def start(self) -> "Query":
        return Query(self._frame, self._on_round, self._folder, self._trigger)


class Query:
    """A streaming query: round after round in a thread of its own, from the offsets that it was given."""

    def __init__(
        self, frame: Frame, on_round: Any, folder: Any, trigger: Mapping[str, Any]
    ) -> None:
        self._frame, self._on_round, self._folder = frame, on_round, folder
        self._session, self._cluster = frame.session, frame.session.kafka.cluster
        assert frame.options is not None
        started = json.loads(frame.options["startingOffsets"])
        self._at: dict[Place, int] = {
            (topic, int(number)): offset
            for topic, offsets in started.items()
            for number, offset in offsets.items()
        }
        self._is_available_now = "availableNow" in trigger
        text = trigger.get("processingTime", "0 milliseconds")
        self._every_s = int(text.partition(" ")[0]) / 1_000
        self._failure: Exception | None = None
        self._is_stopped = self._is_over = False
        one = threads.scheduler()
        assert one.current is not None
        one.spawn(one.current.process, self._run, "stream")

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self._is_over

    def exception(self) -> Exception | None:
        return self._failure

    def stop(self) -> None:
        """Whoever writes a round is told, and goes on for a little."""
        self._is_stopped = self._is_over = True

    def _run(self) -> None:
        try:
            self._read()
        except SparkFailed as exc:
            self._failure = exc
        self._is_over = True

    def _read(self) -> None:
        one, number = threads.scheduler(), 0
        last = self._ends() if self._is_available_now else None
        while not self._is_stopped:
            one.point()
            ends = self._limited(last if last is not None else self._ends())
            if any(self._at.get(place, 0) < end for place, end in ends.items()):
                self._round(number, ends)
                number += 1
            elif last is not None:
                return
            else:
                one.sleep(self._every_s)

    def _ends(self) -> dict[Place, int]:
        found = {}
        for topic in {topic for topic, _ in self._at}:
            if topic not in self._cluster.topics:
                raise SparkFailed(f"This server does not host topic {topic}")
            for number, log in enumerate(self._cluster.topics[topic].logs):
                found[topic, number] = log.stable_end((topic, number))
        for place, at in self._at.items():
            if found.get(place, 0) < at:
                raise SparkFailed(f"offset of {place} was changed from {at}: data may be missed")
        return found

    def _limited(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        most = self._session.most_at_once
        return {place: min(end, self._at.get(place, 0) + most) for place, end in ends.items()}

    def _round(self, number: int, ends: Mapping[Place, int]) -> None:
        noted: dict[str, dict[str, int]] = {}
        for (topic, partition), end in ends.items():
            noted.setdefault(topic, {})[str(partition)] = end
        (self._folder / "offsets" / str(number)).write(f"v1\n{{}}\n{json.dumps(noted)}")
        ranges = tuple(
            (place, self._at.get(place, 0), end)
            for place, end in sorted(ends.items())
            if self._at.get(place, 0) < end
        )
        cancelled = lambda: self._is_stopped  # noqa: E731
        self._on_round(replace(self._frame, ranges=ranges, is_cancelled=cancelled), number)
        (self._folder / "commits" / str(number)).write("v1\n{}")
        self._at.update(ends)


class _Apart:
    """A task's thread, with what `playhead.task.round` keeps in that process and in no other."""

    def __init__(self, thread: Any, process: Process) -> None:
        self._thread, self._process = thread, process

    def switch(self) -> None:
        playhead.task.round._kept = self._process.kept
        try:
            self._thread.switch()
        finally:
            self._process.kept, playhead.task.round._kept = playhead.task.round._kept, None
