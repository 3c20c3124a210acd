"""Stand-ins for threads, locks, queues and time, which a scheduler drives; put into product modules by name."""

import sys
import time as real_time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor as RealPool
from contextlib import contextmanager
from queue import Empty
from queue import SimpleQueue as RealQueue
from threading import Event as RealEvent
from threading import Lock as RealLock
from threading import Thread as RealThread
from types import SimpleNamespace
from typing import Any
from uuid import uuid4 as real_uuid4

from simulation.scheduler import Killed, Scheduler

_now: list[Scheduler] = []


def scheduler() -> Scheduler:
    """The one that is at work."""
    return _now[-1]


@contextmanager
def at_work(one: Scheduler) -> Any:
    """Product code is driven by this one as long as the block lasts."""
    _now.append(one)
    try:
        yield
    finally:
        _now.pop()


class Time:
    """The module `time`, of which only the formatting is real."""

    def __getattr__(self, name: str) -> Any:
        return getattr(real_time, name)

    def monotonic_ns(self) -> int:
        return _now[-1].now_ns

    def monotonic(self) -> float:
        return _now[-1].now_ns / 1e9

    perf_counter = monotonic

    def time_ns(self) -> int:
        one = scheduler()
        return one.now_ns + one.wall_ahead_ns

    def time(self) -> float:
        return self.time_ns() / 1e9

    def sleep(self, seconds: float) -> None:
        scheduler().sleep(seconds)


class Thread:
    """A task of the process that starts it."""

    def __init__(
        self,
        target: Callable[..., Any],
        args: Iterable[Any] = (),
        *,
        name: str = "thread",
        kwargs: Mapping[str, Any] | None = None,
        daemon: bool | None = None,
    ) -> None:
        self._work, self.name = lambda: target(*args, **(kwargs or {})), name
        self._task: Any = None

    def start(self) -> None:
        one = scheduler()
        assert one.current is not None
        self._task = one.spawn(one.current.process, self._work, self.name)
        one.point()

    def join(self, timeout: float | None = None) -> None:
        scheduler().wait(lambda: self._task.is_done, timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_done


class Event:
    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        return scheduler().wait(self.is_set, timeout)


class Lock:
    def __init__(self) -> None:
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._held and blocking:
            scheduler().wait(lambda: not self._held, None if timeout < 0 else timeout)
        if self._held:
            return False
        self._held = True
        return True

    def release(self) -> None:
        self._held = False

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimpleQueue:
    def __init__(self) -> None:
        self._items: list[Any] = []

    def put(self, item: Any) -> None:
        self._items.append(item)

    def empty(self) -> bool:
        return not self._items

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._items and block:
            scheduler().wait(lambda: self._items, timeout)
        if not self._items:
            raise Empty
        return self._items.pop(0)


class _Future:
    def __init__(self, task: Any) -> None:
        self._task = task

    def done(self) -> bool:
        return bool(self._task.is_done)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        scheduler().wait(lambda: self._task.is_done, timeout)
        failure: BaseException | None = self._task.failure
        if isinstance(failure, Killed):
            raise failure
        return failure

    def result(self, timeout: float | None = None) -> Any:
        failure = self.exception(timeout)
        if failure is not None:
            raise failure
        return self._task.result


class ThreadPoolExecutor:
    """Each piece of work is a task of its own, as if there were as many threads."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._tasks: list[Any] = []

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> _Future:
        one = scheduler()
        assert one.current is not None
        self._tasks.append(
            one.spawn(one.current.process, lambda: work(*args, **kwargs), work.__name__)
        )
        one.point()
        return _Future(self._tasks[-1])

    def map(self, work: Callable[..., Any], *items: Iterable[Any]) -> Iterable[Any]:
        found = [self.submit(work, *each) for each in zip(*items, strict=False)]
        return (each.result() for each in found)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if wait:
            scheduler().wait(lambda: all(each.is_done for each in self._tasks), None)

    def __enter__(self) -> "ThreadPoolExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def uuid4() -> Any:
    """An id that the next schedule of the same seed gets, too."""
    number = scheduler().number()
    # Both halves tell it: a writer's name is the first one.
    return SimpleNamespace(hex=f"{number:016x}" * 2, int=number)


TIME = Time()
_STAND_INS: tuple[tuple[str, Any, Any], ...] = (
    ("time", real_time, TIME),
    ("Thread", RealThread, Thread),
    ("Event", RealEvent, Event),
    ("Lock", RealLock, Lock),
    ("SimpleQueue", RealQueue, SimpleQueue),
    ("ThreadPoolExecutor", RealPool, ThreadPoolExecutor),
    ("uuid4", real_uuid4, uuid4),
)


def put_in() -> None:
    """Replace these names in every product module that is loaded."""
    for name, module in list(sys.modules.items()):
        if name.startswith("playhead.") and module is not None:
            for its, real, ours in _STAND_INS:
                if module.__dict__.get(its) is real:
                    setattr(module, its, ours)
