"""A process that keeps its memory does not ask the system for it again, until it gives it back."""

import platform
import subprocess
import sys

import pytest

from playhead.task.malloc import give_back, keep_memory

# What a task does with each slice: one text of all its values, and away with it.
_SLICE_AFTER_SLICE = """
import resource
from playhead.task.malloc import keep_memory
{}
values = [b"%0130d" % n for n in range(50_000)]
def work():
    texts = [b" ".join(values) for _ in range(2)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(first: str) -> int:
    run = [sys.executable, "-c", _SLICE_AFTER_SLICE.format(first)]
    return int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_memory_that_was_freed_is_not_cleared_again():
    assert _faults("assert keep_memory()") < _faults("") / 3


_GIVES_BACK = """
from pathlib import Path
from playhead.task.malloc import give_back, keep_memory
def held_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20
keep_memory()
texts = [b"x" * (16 << 20) for _ in range(10)]
pin = b"x" * (1 << 20)  # what lies above it cannot be cut off
del texts
before = held_mb()
give_back()
print(before - held_mb())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_what_was_kept_is_given_back():
    run = [sys.executable, "-c", _GIVES_BACK]
    given = int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert given > 100


_THREAD_AFTER_THREAD = """
import ctypes
from threading import Barrier, Thread
from playhead.task.malloc import keep_memory
{}
side_by_side = Barrier(4)
def work():
    side_by_side.wait()
    texts = [b"%05000d" % n for n in range(1_000)]
    side_by_side.wait()
for thread in [Thread(target=work) for _ in range(4)]:
    thread.start()
ctypes.CDLL(None).malloc_stats()
"""


def _heaps(first: str) -> int:
    run = [sys.executable, "-c", _THREAD_AFTER_THREAD.format(first)]
    said = subprocess.run(run, check=True, capture_output=True, text=True).stderr
    return said.count("Arena ")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_the_threads_of_one_work_leave_no_heaps_behind_for_the_next():
    assert (_heaps("assert keep_memory()"), _heaps("") > 1) == (1, True)


def test_another_c_library_is_left_alone(monkeypatch):
    def none_there(_: object) -> None:
        raise OSError("no such library")

    keep_memory.cache_clear()
    monkeypatch.setattr("ctypes.CDLL", none_there)
    assert not keep_memory()
    give_back()
    keep_memory.cache_clear()
