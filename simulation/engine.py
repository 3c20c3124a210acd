"""The engine, which plays tasks as processes: they are lost, and played again while the lost one goes on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import playhead.task.play
from playhead.errors import PlayheadError
from playhead.task.job import Job
from simulation import threads
from simulation.scheduler import Process, Task

_MOST_ATTEMPTS = 4


class TaskLost(PlayheadError):
    """The engine has given a task up."""


class Engine:
    """Plays a job's tasks as processes of the simulation, as Spark would: with lost tasks played again."""

    is_there = is_local = True
    is_bounded = False

    def __init__(self, slots: int, zombies: int, stream: Any = None) -> None:
        self.slots = slots
        self._zombies = zombies
        self._stream = stream
        self._workers: list[Process] = []

    def paced_slots(self) -> int:
        return 8

    def warm(self) -> None:
        pass

    def check(self) -> None:
        pass

    def tell(self, _: Any) -> None:
        pass

    def session(self) -> Any:
        """What a live pipeline reads its source with."""
        return self._stream(self)

    def cancel(self) -> None:
        for each in self._workers:
            threads.scheduler().kill(each, "cancelled")

    def transformed(self, samples: Any) -> Any:
        return samples

    def run_job(self, job: Job) -> list[Mapping[str, Any]]:
        tasks = [
            Work(
                self,
                f"task {index}",
                lambda index=index: playhead.task.play.play(job, index),  # type: ignore[misc]
                lambda index=index: ", ".join(  # type: ignore[misc]
                    str(slice_) for work in job.tasks[index] for slice_ in work
                ),
            )
            for index in range(len(job.tasks))
        ]
        return [report.as_document() for index in self.played(tasks) for report in index]

    def played(
        self, tasks: Sequence["Work"], is_cancelled: Callable[[], bool] = lambda: False
    ) -> list[Any]:
        """What all of them come to."""
        one = threads.scheduler()
        assert one.current is not None
        driver = one.current.process

        def die() -> None:
            """Tasks outlive their driver by a little."""
            for process in [each for work in tasks for each in work.processes]:
                delay_s = (0.0, 0.05, 3.0)[one.choices.below(3)]
                one.at(delay_s, lambda process=process: one.kill(process, "dies with its driver"))

        driver.mourners.append(die)
        for work in tasks:
            work.start()

        def has_news() -> bool:
            return is_cancelled() or any(map(Work.has_news, tasks))

        while not all(work.is_over for work in tasks):
            one.wait(has_news, None)
            failure: BaseException | None = TaskLost("cancelled") if is_cancelled() else None
            for work in tasks:
                failure = failure or work.heed()
            if failure is not None:
                die()
                driver.mourners.remove(die)
                raise failure
        driver.mourners.remove(die)
        return [work.result for work in tasks]

    def worker(self, name: str) -> Process:
        """A process for one task."""
        self._workers.append(Process(name))
        return self._workers[-1]

    def spawned(self, process: Process, work: Callable[[], Any]) -> Task:
        return threads.scheduler().spawn(process, work)

    def is_believed_lost(self) -> bool:
        return threads.scheduler().choices.happens(self._zombies)


class Work:
    """One of a job's tasks, and all that try to do it."""

    def __init__(
        self,
        engine: Any,
        name: str,
        play: Callable[[], Any],
        about: Callable[[], str],
        most_attempts: int = _MOST_ATTEMPTS,
    ) -> None:
        self._engine, self._name, self._play, self._about = engine, name, play, about
        self._most_attempts = most_attempts
        self._task: Task | None = None
        self._attempts = 0
        self._is_lost = False
        self.processes: list[Process] = []
        self.is_over = False
        self.result: Any = None

    def start(self) -> None:
        one = threads.scheduler()
        process = self._engine.worker(f"{self._name}.{self._attempts}")
        if one.story is not None:
            one.tell(f"starts {process.name}: {self._about()}")
        task = self._engine.spawned(process, self._play)
        self._task, self._is_lost = task, False
        self._attempts += 1
        self.processes.append(process)
        if self._attempts < self._most_attempts and self._engine.is_believed_lost():
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
            if self._attempts >= self._most_attempts:
                return TaskLost(f"{self._name} was lost {self._attempts} times")
            self.start()
            return None
        if self._task.failure is not None:
            return self._task.failure
        self.result, self.is_over = self._task.result, True
        return None
