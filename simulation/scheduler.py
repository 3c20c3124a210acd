"""One thread's worth of tasks: who runs next, what time it is, and which process has died."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from greenlet import greenlet

from simulation.choices import Choices

_TICK_NS = 200_000
_START_NS = 1_767_225_600_000_000_000
_MOST_STEPS = 60_000


class Killed(BaseException):
    """The process of this task was killed: nothing that it does reaches anybody any more."""


class Stuck(Exception):
    """Nobody can go on, or everybody goes on for ever."""


class Process:
    """What dies as a whole: its tasks, and every handle that one of them has made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.mourners: list[Callable[[], None]] = []
        """Told when it dies: servers, which see its connections end."""
        self.kept: Any = None
        """What `playhead.task.round` keeps for each process."""


class Task:
    """A thread of a process."""

    def __init__(self, process: Process, work: Callable[[], Any], name: str, hub: greenlet) -> None:
        self.process, self.name = process, name
        self.until: Callable[[], Any] | None = None
        self.deadline_ns: int | None = None
        self.is_done = False
        self.result: Any = None
        self.failure: BaseException | None = None
        self._work = work
        self.greenlet = greenlet(self._run, parent=hub)

    def _run(self) -> None:
        try:
            if not self.process.is_dead:
                self.result = self._work()
        except BaseException as exc:  # noqa: BLE001  whoever waits for the task looks at it
            self.failure = exc
        self.is_done = True

    def is_ready(self, now_ns: int) -> bool:
        until, deadline_ns = self.until, self.deadline_ns
        if (until is None and deadline_ns is None) or self.process.is_dead:
            return True
        if deadline_ns is not None and deadline_ns <= now_ns:
            return True
        return until is not None and bool(until())


class Scheduler:
    """Runs tasks one at a time; each call of `point`, `sleep` and `wait` may let others run first."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.now_ns = _START_NS
        self.wall_ahead_ns = 0
        """How far the wall clock is ahead of the time that passes."""
        self.switches = 0
        """One in so many points lets another task run; 0 for none."""
        self.kills = 0
        """One in so many points is the last one of its process."""
        self.may_kill: Callable[[Process], bool] = lambda _: False
        self.current: Task | None = None
        self.story: list[str] | None = None
        self._tasks: list[Task] = []
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._steps = 0
        self.at_half: Callable[[], None] = lambda: None
        """Called where half of the steps that may be taken without an end are taken."""
        self._hub = greenlet.getcurrent()

    def tell(self, text: str) -> None:
        """A line of the story, where somebody wants to read it."""
        if self.story is not None:
            who = self.current.process.name if self.current else "-"
            self.story.append(f"{(self.now_ns - _START_NS) / 1e9:9.3f} {who:10} {text}")

    def number(self) -> int:
        """A number that nobody has had."""
        return next(self._numbers)

    # --- from outside of all tasks

    def spawn(self, process: Process, work: Callable[[], Any], name: str = "main") -> Task:
        task = Task(process, work, name, self._hub)
        self._tasks.append(task)
        return task

    def at(self, seconds: float, work: Callable[[], None]) -> None:
        """Let a server do something later, whoever is alive then."""
        heappush(self._timers, (self.now_ns + round(seconds * 1e9), next(self._numbers), work))

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Let tasks run; to be called by none of them. It is over by tasks that end, and timers that fire."""
        is_changed = True
        while not (is_changed and is_over()):
            timers = self._timers
            is_changed = bool(timers) and timers[0][0] <= self.now_ns and self._fire()
            now_ns = self.now_ns
            ready = [
                each
                for each in self._tasks
                if (each.until is None and each.deadline_ns is None) or each.is_ready(now_ns)
            ]
            if not ready:
                if not (is_changed and is_over()):
                    self._advance()
                continue
            task = ready[self.choices.below(len(ready))]
            self._steps += 1
            if self._steps == _MOST_STEPS // 2:
                self.at_half()
            if self._steps > _MOST_STEPS:
                waits = sorted(f"{each.process.name}/{each.name}" for each in self._tasks)
                raise Stuck(f"{_MOST_STEPS} steps and no end: {', '.join(waits)}")
            self._resume(task)
            is_changed = is_changed or task.is_done

    def finish(self) -> None:
        """Let all that are alive come to their end, and all that is on its way arrive."""
        self.run_until(lambda: not self._tasks and not self._timers)

    def end(self) -> None:
        """Kill whatever is left, at the end of a schedule."""
        for each in self._tasks:
            each.process.is_dead = True
        self._steps = 0
        self._timers.clear()
        self.run_until(lambda: not self._tasks)

    def processes(self) -> list[Process]:
        """Those that have something to do."""
        return list(dict.fromkeys(each.process for each in self._tasks))

    def kill(self, process: Process, why: str = "killed") -> None:
        """Its handles are dead at once; its tasks find out when they go on."""
        if not process.is_dead:
            self.tell(f"{process.name} {why}")
            process.is_dead = True
            for each in process.mourners:
                each()

    def _resume(self, task: Task) -> None:
        task.until = task.deadline_ns = None
        self.current = task
        try:
            task.greenlet.switch()
        finally:
            self.current = None
        if task.is_done:
            self._tasks.remove(task)

    def _advance(self) -> None:
        waits = [each.deadline_ns for each in self._tasks if each.deadline_ns is not None]
        waits += [self._timers[0][0]] if self._timers else []
        if not waits:
            waiting = sorted(f"{each.process.name}/{each.name}" for each in self._tasks)
            raise Stuck(f"all wait for each other: {', '.join(waiting) or 'nobody'}")
        self.now_ns = max(self.now_ns, min(waits))

    def _fire(self) -> bool:
        """What is due; whether anything was."""
        timers = self._timers
        if not timers or timers[0][0] > self.now_ns:
            return False
        while timers and timers[0][0] <= self.now_ns:
            heappop(timers)[2]()
        return True

    # --- from inside of a task

    def point(self) -> None:
        """Something happens between processes now: others may come first, and this one may die."""
        task = self.current
        if task is None:
            return
        if task.process.is_dead:
            raise Killed
        self.now_ns += _TICK_NS
        choices = self.choices
        if self.kills and self.may_kill(task.process) and choices.happens(self.kills):
            self.kill(task.process)
            raise Killed
        if self.switches and len(self._tasks) > 1 and choices.happens(self.switches):
            self._leave(task)
        elif self._timers and self._timers[0][0] <= self.now_ns:
            self._fire()

    def sleep(self, seconds: float) -> None:
        self.wait(None, seconds)

    def wait(self, until: Callable[[], Any] | None, seconds: float | None) -> bool:
        """Until something is so, or the time is over; whether it is so."""
        task = self.current
        if task is None:
            return bool(until and until())
        if task.process.is_dead:
            raise Killed
        if until is not None and until():
            return True
        task.until = until
        task.deadline_ns = None if seconds is None else self.now_ns + round(max(seconds, 0) * 1e9)
        self._leave(task)
        return bool(until and until())

    def _leave(self, task: Task) -> None:
        self._hub.switch()
        if task.process.is_dead:
            raise Killed
