"""A process that has been told to keep its memory does not ask the system for it again."""

import platform
import subprocess
import sys

import pytest

from playhead.allocation import keep_memory

# What a task does with each slice: one text of all its values, and away with it.
_SLICE_AFTER_SLICE = """
import resource
from playhead.allocation import keep_memory
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


def test_another_c_library_is_left_alone(monkeypatch):
    def none_there(_: object) -> None:
        raise OSError("no such library")

    keep_memory.cache_clear()
    monkeypatch.setattr("ctypes.CDLL", none_there)
    assert not keep_memory()
    keep_memory.cache_clear()
