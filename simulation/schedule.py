"""Plays one schedule: a case is drawn, the product replays it amid faults, and the oracle judges."""

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from playhead.config.context import Configuration, Resolved
from playhead.errors import PlayheadError
from playhead.plan import Plan
from playhead.proof import Proof
from playhead.replay.api import Planned
from playhead.replay.assemble import ends
from playhead.replay.begun_replays import plan_from_ledger
from playhead.replay.planner import Planner
from playhead.replay.verify import Verification
from playhead.request import Request
from simulation import archived, disk, judge, live, product, redrive
from simulation.cases import TABLE, TARGET, Case, Faults, draw, fill_again
from simulation.choices import Choices
from simulation.database import Database
from simulation.disk import Disk
from simulation.engine import Engine
from simulation.judge import Violation
from simulation.kafka_clients import Kafka, Weather
from simulation.kafka_cluster import Cluster
from simulation.oracle import Outcome, outcome
from simulation.scheduler import Killed, Process, Scheduler, Stuck, Task
from simulation.threads import at_work

_REPLAY = "r1"
LEDGER_TOPIC = "playhead.ledger"
_RUNS = 3
_ONE_IN_LIVE = 6
_CONFIGURATION = Configuration(
    None,
    {
        "bootstrap_servers": Resolved("broker:9092", "the simulation"),
        "database": Resolved("postgresql://u@base/d", "the simulation"),
        "read_only": Resolved("false", "the simulation"),
        "production": Resolved("false", "the simulation"),
    },
    {"bootstrap.servers": Resolved("broker:9092", "the simulation")},
)


@dataclass(slots=True)
class Played:
    """What a schedule came to; for the counts of many."""

    proved: int = 0
    refused: int = 0
    failed: int = 0
    killed: int = 0


class World:
    """One schedule's servers, clock and faults."""

    def __init__(
        self,
        choices: Choices,
        story: list[str] | None = None,
        without: Collection[str] = (),
        *,
        is_live: bool = False,
    ) -> None:
        self.choices = choices
        self.scheduler = Scheduler(choices)
        self.scheduler.story = story
        # Faults in great number can keep everybody busy for longer than anybody watches.
        self.scheduler.at_half = self.calm
        self.cluster = Cluster()
        self.kafka = Kafka(self.cluster, self.scheduler)
        self.case: Case = draw(choices, self.cluster, without, is_live=is_live)
        self.base = Database(self.scheduler)
        self.disk = Disk(self.scheduler)
        self.expected = Outcome()
        self.target = TABLE if self.case.is_table else TARGET
        self.is_upset = False
        self.played = Played()
        product.use(self.kafka, self.base, self.case.sizes)
        disk.use(self.disk)
        self.make_target()
        if self.case.upset == "ledger expires":
            self.cluster.create(LEDGER_TOPIC, 1, {"cleanup.policy": "delete"})

    def storm(self) -> None:
        """What goes wrong does from now on."""
        case, one = self.case, self.scheduler
        self.kafka.weather, self.base.faults = replace(case.weather), case.faults
        self.disk.unavailable = case.weather.unavailable
        one.switches, one.kills = case.faults.switches, case.faults.kills
        for at_s, by_s in case.jumps:
            one.at(at_s, lambda by_s=by_s: self.set_clock(by_s))
        one.may_kill = lambda process: process.name != "planner"

    def set_clock(self, seconds: int) -> None:
        """Somebody sets the clock on the wall; no time passes by that."""
        self.scheduler.tell(f"the clock on the wall is set by {seconds} s")
        self.scheduler.wall_ahead_ns += seconds * 1_000_000_000

    def calm(self) -> None:
        """From now on nothing goes wrong any more, but for what is on its way."""
        self.kafka.weather, self.base.faults = Weather(), Faults()
        self.disk.unavailable = 0
        self.scheduler.kills = 0

    def fail_power(self) -> None:
        """The machine of the archive is off: whoever runs there is dead."""
        self.scheduler.tell("the power fails")
        for each in self.scheduler.processes():
            self.scheduler.kill(each, "has no power")
        # A writer that outlives its run has its last file seen before it is durable. That a proof may
        # have seen it, and the power fails in the very same moment, is known.
        if not self.played.proved:
            self.disk.fail()

    def make_target(self) -> None:
        if self.case.is_table:
            self.base.make_table(self.case, self.target)
        elif not self.case.is_archive:
            self.cluster.topics.pop(self.target, None)
            self.cluster.create(self.target, self.case.partitions)

    def upset(self) -> bool:
        """Somebody does what no replay can go on behind; whether the plan is to be made anew."""
        upset = self.case.upset
        if upset is None or self.is_upset:
            return False
        self.scheduler.tell(f"meanwhile: {upset}")
        self.is_upset = True
        if upset == "source made again":
            fill_again(self.choices, self.cluster, self.case)
        elif upset == "target made again":
            self.make_target()
        elif upset == "ledger expires":
            log = self.cluster.log((LEDGER_TOPIC, 0))
            if log is not None and "compact" not in self.cluster.topics[LEDGER_TOPIC].settings.get(
                "cleanup.policy", "delete"
            ):
                log.start = log.end
        else:
            self.target += "2"
            self.make_target()
            kind = "postgres" if self.case.is_table else "kafka"
            self.case.request["target"] = f"{kind}:{self.target}"
            return True
        return False

    # --- acts

    @contextmanager
    def fair_weather(self) -> Iterator[None]:
        """A plan that a server does not answer is refused, and made again; what it is told may be wrong."""
        before = self.kafka.weather, self.disk.unavailable
        self.kafka.weather = Weather(before[0].premature_end, before[0].in_pieces)
        self.disk.unavailable = 0
        try:
            yield
        finally:
            self.kafka.weather, self.disk.unavailable = before

    def plan(
        self, request: Mapping[str, Any] | None = None, replay_id: str = _REPLAY
    ) -> Plan | None:
        """Make the plan, of the case unless another one is asked for; None where it was refused."""
        asked = Request(**(request or self.case.request))
        task = self.scheduler.spawn(Process("planner"), lambda: self._plan(asked, replay_id))
        with self.fair_weather():
            self.scheduler.run_until(lambda: task.is_done)
        if isinstance(task.failure, PlayheadError):
            self.scheduler.tell(f"the plan was refused: {task.failure}")
            self.played.refused += 1
            return None
        if task.failure is not None:
            raise task.failure
        found: Plan = task.result
        self.scheduler.tell(f"planned {', '.join(map(str, found.slices()))}")
        return found

    def _plan(self, request: Request, replay_id: str) -> Plan:
        both = ends(request, _CONFIGURATION)
        return Planner(request, both, self.scheduler.now_ns).plan(replay_id)

    def start(self, plan: Plan, journal: product.Journal, name: str) -> Task:
        """Somebody runs, or resumes, the plan."""
        engine = Engine(self.case.sizes.slots, self.base.faults.zombies)
        configuration = self.configuration()

        def run() -> Proof:
            known = self._plan_of_the_ledger(plan) if self.case.other_machine else plan
            planned = Planned(known, configuration, engine, journal)  # type: ignore[arg-type]
            return planned.run(patience_s=30)

        return self.scheduler.spawn(Process(name), run)

    def configuration(self) -> Configuration:
        """With the switch in it that the case has."""
        if self.case.guard is None:
            return _CONFIGURATION
        switched = {self.case.guard: Resolved("true", "the simulation")}
        return replace(_CONFIGURATION, settings={**_CONFIGURATION.settings, **switched})

    def verify(self, plan: Plan, journal: product.Journal) -> Verification:
        """Read the target back."""
        engine = Engine(self.case.sizes.slots, 0)
        planned = Planned(plan, _CONFIGURATION, engine, journal)  # type: ignore[arg-type]
        task = self.scheduler.spawn(Process("verifier"), planned.verify)
        self.scheduler.run_until(lambda: task.is_done)
        if task.failure is not None:
            raise task.failure
        found: Verification = task.result
        self.scheduler.tell(found.verdict())
        return found

    def _plan_of_the_ledger(self, plan: Plan) -> Plan:
        """As a machine gets it that has no journal of the replay; before the ledger has it, by hand."""
        try:
            return plan_from_ledger(plan.replay_id, plan.request.target_endpoint, _CONFIGURATION)
        except PlayheadError:
            return plan

    def heed(self, task: Task) -> bool:
        """What a run has come to; whether it is proved."""
        failure, one = task.failure, self.scheduler
        name = task.process.name
        if failure is None and task.result is not None:
            proof: Proof = task.result
            one.tell(f"{name}: {proof.verdict()}")
            if proof.adds_up:
                self.played.proved += 1
                judge.after_proof(self, proof)
            else:
                self.played.failed += 1
                judge.not_proved(self, proof)
            return proof.adds_up
        if isinstance(failure, Killed) or (failure is None and task.process.is_dead):
            self.played.killed += 1
        elif isinstance(failure, PlayheadError):
            one.tell(f"{name} failed: {type(failure).__name__}: {failure}")
            self.played.failed += 1
            judge.after_failure(self, failure)
        elif failure is not None:
            raise failure
        return False


def play(choices: Choices, story: list[str] | None = None, without: Collection[str] = ()) -> Played:
    """One schedule; raises `Violation` when something was claimed that is not so."""
    is_live = choices.below(_ONE_IN_LIVE) == _ONE_IN_LIVE - 1
    world = World(choices, story, without, is_live=is_live)
    world.scheduler.tell(world.case.told())
    gc.disable()
    with at_work(world.scheduler):
        try:
            live.run(world) if is_live else _run(world)
        except Stuck as exc:
            raise Violation(f"nothing goes on any more: {exc}") from exc
        except (Violation, Killed):
            raise
        except Exception as exc:
            raise Violation(f"an error that is none of the product's: {exc!r}") from exc
        finally:
            world.scheduler.story = None
            world.scheduler.end()
    return world.played


def _run(world: World) -> None:
    one, case = world.scheduler, world.case
    world.storm()
    plan = world.plan()
    if plan is None:
        return
    number = range(case.partitions)
    world.expected = outcome(case, [world.cluster.committed(("src", n)) for n in number])
    journal = product.Journal()
    is_proved = False
    for run in range(_RUNS):
        if is_proved and not world.choices.happens(3) and not case.upset:
            break
        if run and world.choices.below(2) == 0 and world.upset():
            plan = world.plan()
            if plan is None:
                return
        if run == _RUNS - 1:
            world.calm()
            one.finish()
        if run and case.other_machine:
            journal = product.Journal()
        tasks = [world.start(plan, journal, f"run {run}")]
        if case.two_at_once and run == 0:
            tasks.append(world.start(plan, product.Journal(), "another"))
        if case.power_fails and run == 0:
            one.at(world.choices.below(200) / 1_000, world.fail_power)
        one.run_until(lambda tasks=tasks: all(each.is_done for each in tasks))
        for each in tasks:
            is_proved = world.heed(each) or is_proved
    one.finish()
    judge.at_the_end(world, is_proved)
    if is_proved and not (case.is_table or case.upset or case.guard):
        _look_again(world, plan, journal)
    if is_proved and world.expected.letters and not world.is_upset:
        redrive.run(world)


def _look_again(world: World, plan: Plan, journal: product.Journal) -> None:
    """A verification agrees with what is there, and does not when somebody has changed it."""
    world.calm()
    judge.verified(world, world.verify(plan, journal))
    if world.case.is_archive:
        if archived.tamper(world):
            judge.not_verified(world.verify(plan, journal))
        return
    copies = [
        each
        for number in range(case_partitions(world))
        for each in world.cluster.settled((world.target, number))
    ]
    if copies and world.choices.below(2) == 1:
        changed = copies[world.choices.below(len(copies))]
        if world.choices.below(2) == 0:
            changed.value = b"somebody else's"
        else:
            changed.kind = "gone"
        world.scheduler.tell(f"somebody changes the copy at offset {changed.offset}")
        judge.not_verified(world.verify(plan, journal))


def case_partitions(world: World) -> int:
    return len(world.cluster.topics[world.target].logs)
