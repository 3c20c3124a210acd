"""The product's modules, wired to the models instead of to servers, threads and clocks."""

import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from psycopg import conninfo

import playhead.cutter
import playhead.job
import playhead.journal
import playhead.kafka.dead_letters
import playhead.kafka.log_heads
import playhead.kafka.source
import playhead.kafka.target
import playhead.live.playing
import playhead.postgres.fast
import playhead.postgres.session
import playhead.postgres.target
import playhead.replay.api
import playhead.replay.planning
import playhead.replay.running
import playhead.replay.sharing
import playhead.replay.verifying
import playhead.rounds
from playhead.connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.job import Job
from playhead.journal import Journal as RealJournal
from playhead.kafka import clients
from playhead.plan import Plan
from playhead.target import InUse
from simulation import statements_ledger, statements_rows, threads
from simulation.kafka_log_heads import LogHeads
from simulation.scheduler import Killed, Process, Task
from simulation.statements import of_session

_MOST_ATTEMPTS = 4
_SHAPES = (statements_ledger, statements_rows)


class TaskLost(PlayheadError):
    """The engine has given a task up."""


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def wire() -> None:
    """Once for this process: no thread, no clock, no server is real from now on."""
    threads.put_in()
    told = playhead.live.waiting.Told.__init__
    told.__defaults__ = (threads.TIME.monotonic,)
    playhead.job.keep_memory = playhead.job.give_back = lambda: None  # type: ignore[assignment]
    playhead.job.seldom_collecting = _nothing
    playhead.rounds.keep_memory = lambda: None
    playhead.rounds.seldom_collecting = _nothing
    playhead.kafka.source.sizes_at_leaders = lambda _, described: {  # type: ignore[assignment]
        name: {} for name in described
    }
    KafkaConnection.for_librdkafka = lambda self, role=None: dict(_settings(self.bootstrap_servers))  # type: ignore[method-assign]
    _lighten()
    # What a dead process leaves behind is closed when it is collected, and has nobody to tell.
    sys.unraisablehook = lambda _: None


def _lighten() -> None:
    """The same answers at less cost: a schedule takes milliseconds, and asks the same things often."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    playhead.postgres.fast._SMALLEST_BLOCK = 1 << 12
    session: Any = playhead.postgres.session
    parse, make = lru_cache(conninfo.conninfo_to_dict), conninfo.make_conninfo
    session.conninfo = SimpleNamespace(
        conninfo_to_dict=lambda text: dict(parse(text)),
        make_conninfo=lru_cache(make),
    )
    playhead.postgres.fast.pj = SimpleNamespace(
        read_json=_read_json, ReadOptions=lambda **_: None, ParseOptions=lambda **named: named
    )
    for name in ("as_json", "as_document"):
        setattr(Plan, name, _kept(name, getattr(Plan, name)))


def _kept(name: str, work: Any) -> Any:
    """What a plan says once it says again: it never changes."""

    def again(self: Plan) -> Any:
        key = (id(self), name)
        found = _plans.get(key)
        if found is None or found[0] is not self:
            found = _plans[key] = (self, work(self))
        return dict(found[1]) if isinstance(found[1], dict) else found[1]

    return again


def _read_json(held: Any, read_options: Any, parse_options: Any) -> Any:
    """What Arrow's reader gives for the few types of the tables here; its start takes longer than a schedule."""
    columns: dict[str, list[Any]] = {each.name: [] for each in parse_options["explicit_schema"]}
    for line in held.read().split(b"\n"):
        try:
            document = json.loads(line)
        except ValueError as exc:
            raise pa.ArrowInvalid(str(exc)) from exc
        if not isinstance(document, dict):
            raise pa.ArrowInvalid("no object")
        for name, values in columns.items():
            values.append(document.get(name))
    return pa.table(columns, schema=parse_options["explicit_schema"])


_plans: dict[tuple[int, str], tuple[Plan, Any]] = {}


@lru_cache
def _settings(servers: str) -> dict[str, Any]:
    return {"bootstrap.servers": servers}


def use(kafka: Any, base: Any, sizes: Any) -> None:
    """Have the product meet these servers, cut slices so long, and split lanes so far."""
    playhead.postgres.session.Link = of_session(base)  # type: ignore[assignment, misc]
    clients.make_consumer, clients.make_producer = kafka.consumer, kafka.producer
    clients.make_admin = kafka.admin
    _plans.clear()
    playhead.kafka.log_heads.make_heads = lambda *_, **__: LogHeads(kafka)
    limits = playhead.cutter.Limits(max_records=sizes.records)
    playhead.replay.running._limits = lambda: limits
    playhead.replay.sharing._LEAST_SPLIT = sizes.split


class _StopFile:
    """A stop file of a machine that has no disk."""

    def __init__(self, asked: set[str], replay_id: str) -> None:
        self._asked, self._replay_id = asked, replay_id
        self.parent = Path("/nowhere")

    def exists(self) -> bool:
        return self._replay_id in self._asked

    def touch(self) -> None:
        self._asked.add(self._replay_id)

    def unlink(self, missing_ok: bool = True) -> None:
        self._asked.discard(self._replay_id)


class Journal(RealJournal):
    """One machine's journal: the product's own, on a database in memory."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self._base = sqlite3.connect(":memory:", isolation_level=None)
        self._base.row_factory = sqlite3.Row
        self._base.executescript(playhead.journal._SCHEMA)
        self._holders: dict[str, Process] = {}
        self._asked: set[str] = set()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        task = threads.scheduler().current
        if task is not None and task.process.is_dead:
            raise Killed
        yield self._base

    def stop_file(self, replay_id: str) -> Any:
        return _StopFile(self._asked, replay_id)

    def is_held(self, replay_id: str) -> bool:
        holder = self._holders.get(replay_id)
        return holder is not None and not holder.is_dead

    @contextmanager
    def held(self, replay_id: str) -> Iterator[None]:
        if self.is_held(replay_id):
            raise InUse(replay_id, where="on this machine")
        task = threads.scheduler().current
        assert task is not None
        self._holders[replay_id] = task.process
        self._asked.discard(replay_id)
        try:
            yield
        finally:
            if self._holders.get(replay_id) is task.process:
                del self._holders[replay_id]


class Engine:
    """Plays a job's works as processes of the simulation, as Spark would: with lost tasks played again."""

    is_there = is_local = True
    is_bounded = False

    def __init__(self, slots: int, zombies: int) -> None:
        self.slots = slots
        self._zombies = zombies
        self._workers: list[Process] = []

    def paced_slots(self) -> int:
        return 8

    def warm(self) -> None:
        pass

    def check(self) -> None:
        pass

    def cancel(self) -> None:
        for each in self._workers:
            threads.scheduler().kill(each, "cancelled")

    def transformed(self, samples: Any) -> Any:
        return samples

    def run_job(self, job: Job) -> list[Mapping[str, Any]]:
        return [report.as_document() for index in self._played(job) for report in index]

    def _played(self, job: Job) -> list[Any]:
        one = threads.scheduler()
        assert one.current is not None
        driver = one.current.process
        works = [_Work(self, job, index) for index in range(len(job.works))]

        def die() -> None:
            """Tasks outlive their driver by a little."""
            for process in [each for work in works for each in work.processes]:
                delay_s = (0.0, 0.05, 3.0)[one.choices.below(3)]
                one.at(delay_s, lambda process=process: one.kill(process, "dies with its driver"))

        driver.mourners.append(die)
        for work in works:
            work.start()
        while not all(work.is_over for work in works):
            one.wait(lambda: any(work.has_news() for work in works), None)
            for work in works:
                failure = work.heed()
                if failure is not None:
                    die()
                    raise failure
        driver.mourners.remove(die)
        return [work.result for work in works]

    def started(self, job: Job, index: int, attempt: int) -> Task:
        one = threads.scheduler()
        process = Process(f"task {index}.{attempt}")
        self._workers.append(process)
        one.tell(f"starts {process.name}: {', '.join(map(str, _lanes(job, index)))}")
        return one.spawn(process, lambda: playhead.job.play(job, index))

    def is_believed_lost(self) -> bool:
        return threads.scheduler().choices.happens(self._zombies)


def _lanes(job: Job, index: int) -> list[Any]:
    return [slice_ for lane in job.works[index] for slice_ in lane]


class _Work:
    """One of a job's works, and all that try to do it."""

    def __init__(self, engine: Engine, job: Job, index: int) -> None:
        self._engine, self._job, self._index = engine, job, index
        self._task: Task | None = None
        self._attempts = 0
        self._is_lost = False
        self.processes: list[Process] = []
        self.is_over = False
        self.result: Any = None

    def start(self) -> None:
        task = self._engine.started(self._job, self._index, self._attempts)
        self._task, self._is_lost = task, False
        self._attempts += 1
        self.processes.append(task.process)
        if self._attempts < _MOST_ATTEMPTS and self._engine.is_believed_lost():
            one = threads.scheduler()
            delay_s = (0.001, 0.005, 0.02, 0.1, 1.0)[one.choices.below(5)]
            one.at(delay_s, lambda: self._lose(task))

    def _lose(self, task: Task) -> None:
        if self._task is task and not self.is_over and not task.is_done:
            threads.scheduler().tell(f"{task.process.name} is believed to be lost, and goes on")
            self._is_lost = True

    def has_news(self) -> bool:
        task = self._task
        return (
            not self.is_over
            and task is not None
            and (self._is_lost or task.is_done or task.process.is_dead)
        )

    def heed(self) -> BaseException | None:
        """Take the result, or try again; a failure is the job's."""
        if not self.has_news():
            return None
        assert self._task is not None
        if self._is_lost or self._task.process.is_dead:
            if self._attempts >= _MOST_ATTEMPTS:
                return TaskLost(f"task {self._index} was lost {self._attempts} times")
            self.start()
            return None
        if self._task.failure is not None:
            return self._task.failure
        self.result, self.is_over = self._task.result, True
        return None
