"""Plays a live pipeline: started a few times over a log that grows, stopped, killed, its topic made again."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from playhead.errors import PlayheadError
from playhead.live.pipeline_spec import PipelineSpec
from playhead.live.runner import Runner
from playhead.replay.api import Planned
from playhead.replay.assemble import ends
from playhead.replay.planner import Planner
from playhead.request import Request
from simulation import judge, stream
from simulation.cases import LIVE_UPSETS, SOURCE, fill_again, step
from simulation.engine import Engine
from simulation.judge import Violation
from simulation.kafka_cluster import Stored
from simulation.machine import Machine
from simulation.oracle import Outcome, outcome
from simulation.scheduler import Killed, Process, Task

if TYPE_CHECKING:
    from simulation.schedule import World

_NAME, _ID, _GROUP = "p1", "live.p1", "playhead.live.p1"
_STARTS = 3
_TRIGGERS_MS = (None, 200, 1_000)
_PAUSES_S = (0.0, 0.05, 0.6, 4.0, 15.0)
_AGAIN_AFTER_S = (0.0, 0.0, 0.1, 3.0)

Logs = list[list[Stored]]


@dataclass
class _Live:
    """One schedule of a pipeline."""

    world: "World"
    machine: Machine = field(default_factory=Machine)
    gone: list[Logs] = field(default_factory=list)
    """What could be read of the topics that were deleted."""
    is_refused: bool = False
    """Whether the last plan was: what lies in the log does not fit the table."""
    seen: list[int] = field(default_factory=list)
    """The log's ends when the pipeline began for the first time."""

    @property
    def starts_early(self) -> bool:
        pipeline = self.world.case.pipeline
        return pipeline is not None and pipeline.start == "earliest"

    # --- what others do

    def grow(self) -> None:
        """Somebody writes into the source."""
        world = self.world
        case, one = world.case, world.scheduler
        assert case.pipeline is not None
        for _ in range(case.pipeline.growth):
            self.pause()
            place = (SOURCE, world.choices.below(case.partitions))
            step(world.choices, world.cluster, place, case, False, self.pause)
            one.tell(f"{place} ends at {getattr(world.cluster.log(place), 'end', 'nothing')}")

    def pause(self) -> None:
        one = self.world.scheduler
        one.sleep(one.choices.pick(_PAUSES_S))

    def make_again(self) -> None:
        """Somebody deletes the source, and makes it again a little later."""
        world, case = self.world, self.world.case
        self.pause()
        self.gone.append(self.logs())
        before = [_end(world, number) for number in range(case.partitions)]
        world.cluster.delete(SOURCE)
        world.scheduler.tell("the source is deleted")
        world.scheduler.sleep(world.choices.pick(_AGAIN_AFTER_S))
        fill_again(world.choices, world.cluster, case)
        if world.choices.below(2) == 1:  # long enough that nobody sees it by its ends
            for number, end in enumerate(before):
                while _end(world, number) <= end:
                    step(world.choices, world.cluster, (SOURCE, number), case, False)
        world.is_upset = True
        world.scheduler.tell("the source is made again")

    def expire(self) -> None:
        """The oldest records of the source are removed, whether they were read or not."""
        world = self.world
        self.pause()
        for number in range(world.case.partitions):
            log = world.cluster.log((SOURCE, number))
            if log is not None:
                stable = log.stable_end((SOURCE, number))
                log.start = max(log.start, world.choices.below(stable + 1))
                world.scheduler.tell(f"partition {number} begins at {log.start}")
        world.is_upset = True

    def logs(self) -> Logs:
        """What could be read, also where it has expired since."""
        cluster, number = self.world.cluster, self.world.case.partitions
        found = []
        for place in ((SOURCE, n) for n in range(number)):
            log = cluster.log(place)
            stable = log.stable_end(place) if log is not None else 0
            entries = log.entries if log is not None else []
            found.append([each for each in entries if each.is_visible and each.offset < stable])
        return found

    def stop(self, task: Task) -> None:
        """Somebody asks it to stop, or kills it."""
        world = self.world
        if world.choices.below(3) == 2:
            self.pause()
            world.scheduler.kill(task.process, "killed by hand")
        while not task.is_done:
            self.pause()
            world.scheduler.sleep(1)
            self.machine.journal.ask_to_stop(_ID)

    # --- the pipeline

    def start(self, name: str, trigger_ms: int | None, machine: Machine) -> Task:
        """On this machine, or on another one that knows nothing of it."""
        world = self.world
        pipeline = world.case.pipeline
        assert pipeline is not None
        request = Request(**world.case.request)
        wish = PipelineSpec(
            name=_NAME,
            request=request,
            group=_GROUP,
            start=pipeline.start,
            trigger_ms=trigger_ms,
        )
        engine = Engine(
            world.case.sizes.slots,
            world.base.faults.zombies,
            lambda engine: stream.Session(
                engine, world.kafka, pipeline.most_at_once, pipeline.is_cluster
            ),
        )

        def run() -> dict[str, Any]:
            one = world.scheduler
            configuration = world.configuration()
            both = ends(request, configuration, is_endless=True)
            self.is_refused = True
            with world.fair_weather():
                plan = Planner(request, both, one.now_ns).plan(_ID)
            self.is_refused = False
            planned = Planned(  # type: ignore[arg-type]
                plan, configuration, engine, machine.journal, is_endless=True
            )
            return Runner(wish, planned, machine, one.tell).run()

        return world.scheduler.spawn(Process(name), run)

    def heed(self, task: Task) -> bool:
        """What a start has come to; whether it has read all that was there."""
        world, failure = self.world, task.failure
        one, name = world.scheduler, task.process.name
        if failure is None and task.result is not None:
            one.tell(f"{name}: {task.result}")
            world.played.proved += 1
            if task.result["lost_offsets"]:
                raise Violation(f"offsets were given up, which nobody allowed: {task.result}")
            return bool(task.result["state"] == "done")
        if isinstance(failure, Killed) or (failure is None and task.process.is_dead):
            world.played.killed += 1
        elif isinstance(failure, PlayheadError):
            one.tell(f"{name} failed: {type(failure).__name__}: {failure}")
            world.played.failed += 1
        elif failure is not None:
            raise failure
        return False


def run(world: "World") -> None:
    """Start it a few times amid faults; the last start meets none, and has to read all that is there."""
    live, one, case = _Live(world), world.scheduler, world.case
    assert case.pipeline is not None
    stream.use(case.pipeline.worth_several, case.sizes.records)
    live.seen = [_end(world, number) for number in range(case.partitions)]
    world.storm()
    upset_at = world.choices.below(_STARTS) if case.upset is not None else -1
    is_done = False
    for number in range(_STARTS):
        is_last = number == _STARTS - 1
        if is_last:
            world.calm()
            one.finish()
        if number and case.other_machine and live.starts_early:
            live.machine = Machine()
        trigger_ms = None if is_last else world.choices.pick(_TRIGGERS_MS)
        task = live.start(f"live {number}", trigger_ms, live.machine)
        others = [] if is_last else _others(live, number, upset_at, task)
        others += _twin(live, number)
        one.run_until(lambda: all(each.is_done for each in [task, *others]))  # noqa: B023
        one.finish()
        for each in others:
            if each.failure is not None and not isinstance(each.failure, PlayheadError | Killed):
                raise each.failure
        is_done = live.heed(task)
        _judge(live, f"after {task.process.name}", is_whole=is_done and is_last)
    if not (is_done or live.is_refused or world.is_upset or case.guard or world.expected.fails):
        raise Violation("the last start met no faults, and did not read all that is there")


def _others(live: _Live, number: int, upset_at: int, task: Task) -> list[Task]:
    one = live.world.scheduler
    found = [one.spawn(Process("operator"), lambda: live.stop(task))]
    # Before it has begun, nobody but the product could say where the end was, which is its start.
    if live.starts_early or live.machine.get(_NAME) is not None:
        is_again = live.world.case.upset == LIVE_UPSETS[0]
        is_due = number >= upset_at >= 0 and not live.world.is_upset
        if is_due and (is_again or live.machine.get(_NAME) is not None):
            work = live.make_again if is_again else live.expire
            found.append(one.spawn(Process("somebody"), work))
        found.append(one.spawn(Process("writer"), live.grow))
    return found


def _twin(live: _Live, number: int) -> list[Task]:
    """The same pipeline on another machine at once, which is refused, or has the first one end."""
    world = live.world
    if number or not (world.case.two_at_once and live.starts_early):
        return []
    return [live.start("twin", None, Machine())]


def _end(world: "World", number: int) -> int:
    log = world.cluster.log((SOURCE, number))
    return log.stable_end((SOURCE, number)) if log is not None else 0


# --- what must be so


def _judge(live: _Live, when: str, *, is_whole: bool) -> None:
    """The target has what must come of one topic, as far as it was read; never something of two."""
    world = live.world
    candidates = [live.logs()] if is_whole else [live.logs(), *live.gone]
    told = []
    for logs in candidates:
        begun = [_since(log, start) for log, start in zip(logs, _starts(live, logs), strict=True)]
        world.expected = outcome(world.case, begun)
        try:
            if is_whole:
                judge.compare(world, when)
            else:
                _compare_beginning(world, begun, when)
            return
        except Violation as exc:
            told.append(str(exc))
    world.expected = Outcome()
    raise Violation("; nor is it what came of the topic before: ".join(told))


def _starts(live: _Live, logs: Logs) -> list[int]:
    """Where it began: all of the log, or its end when it was started for the first time."""
    if live.starts_early:
        return [0] * len(logs)
    return live.seen


def _since(log: list[Stored], start: int) -> list[Stored]:
    return [each for each in log if each.offset >= start]


def _compare_beginning(world: "World", logs: Logs, when: str) -> None:
    """What is there came of the beginning of each partition, each record once."""
    if world.case.is_table:
        read = [_committed_by_ledger(world, number) for number in range(len(logs))]
        begun = [
            [each for each in log if each.offset < end] for log, end in zip(logs, read, strict=True)
        ]
        found = Counter(world.base.rows_of_table(world.target))
        wanted = Counter(outcome(world.case, begun).rows)
        if found != wanted:
            lacking, extra = list((wanted - found).elements()), list((found - wanted).elements())
            raise Violation(
                f"{when}: the ledger ends at {read}, the table lacks {lacking} and has {extra} too many"
            )
        return
    judge.compare_beginning(world, when)


def _committed_by_ledger(world: "World", number: int) -> int:
    """Up to where the ledger's entries reach without a hole; that none lies on another is checked as well."""
    ledger = world.base.tables.get(("playhead_ledger", "entries"))
    spans = sorted(
        (row["from_offset"], row["to_offset"])
        for row in (ledger.rows.values() if ledger is not None else ())
        if row["replay"] == _ID and row["topic"] == SOURCE and row["partition"] == number
    )
    for (_, end), (start, _) in pairwise(spans):
        if start != end:
            raise Violation(f"the ledger of partition {number} has {spans}")
    return spans[-1][1] if spans else 0
