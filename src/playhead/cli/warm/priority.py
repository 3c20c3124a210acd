"""Starts processes with the lowest priority that can be raised again later."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MAY_SET_PRIORITIES = 1 << 23  # CAP_SYS_NICE
_NICE_OF_ALL = 20
_LOWEST, _USUAL = 19, 0


@contextmanager
def lowered() -> Iterator[None]:
    """In this block, this process and its children use only processor time that nothing else wants.

    On Linux only a process with CAP_SYS_NICE can leave the idle scheduling class. Other processes lower the nice
    value of their session's autogroup, if the kernel has autogroups.
    """
    has_idle_class = hasattr(os, "SCHED_IDLE") and _may_give_back()
    if has_idle_class:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    _nice(os.getpid(), _LOWEST)
    try:
        yield
    finally:
        raise_again(os.getpid())


def raise_again(process: int) -> None:
    """Give this process and its children their usual priority, as far as that is allowed."""
    for member in _family(process):
        _nice(member, _USUAL)
        _usual_class(member)


def _may_give_back() -> bool:
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        effective = next(line for line in lines if line.startswith("CapEff:"))
        if int(effective.split()[1], 16) & _MAY_SET_PRIORITIES:
            return True
    return resource.getrlimit(resource.RLIMIT_NICE)[0] >= _NICE_OF_ALL


def _nice(process: int, value: int) -> None:
    with suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text(str(value))


def _usual_class(process: int) -> None:
    for _ in range(2):  # a thread that was started meanwhile has inherited the class
        for thread in _names(Path(f"/proc/{process}/task")):
            with suppress(OSError):
                os.sched_setscheduler(int(thread), os.SCHED_OTHER, os.sched_param(0))


def _family(process: int) -> list[int]:
    """Return the process and all its descendants."""
    family = [process]
    for member in family:
        for thread in _names(Path(f"/proc/{member}/task")):
            with suppress(OSError):
                children = Path(f"/proc/{member}/task/{thread}/children").read_text().split()
                family += [int(child) for child in children]
    return family


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return [entry.name for entry in folder.iterdir()]
    return []
