"""Keeps freed memory in the process during work, where the C library would return it at once."""

import ctypes
from contextlib import suppress
from functools import cache

# Constants of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MOST_ARENAS = -1, -2, -3, -8
# The largest value that glibc accepts; larger blocks are mapped and unmapped each time.
_MAPPED_FROM = 32 << 20
_GROWS_BY = 16 << 20
_GIVEN_BACK_FROM = 1 << 30
# One heap for all threads. Every task has new threads; fragments that an old thread's heap kept
# would be useless to the next task. Threads seldom wait for each other here.
_ARENAS = 1


@cache
def keep_memory() -> bool:
    """Keep freed memory; return whether the C library supports it.

    A slice's columns, a fetch, a slice's text take several megabytes each and are needed again at once.
    Clearing their pages each time took a quarter of the time of reading.
    """
    with suppress(OSError, AttributeError):  # Another C library.
        mallopt = ctypes.CDLL(None).mallopt
        wanted = {
            _MMAP_THRESHOLD: _MAPPED_FROM,
            _TOP_PAD: _GROWS_BY,
            _TRIM_THRESHOLD: _GIVEN_BACK_FROM,
            _MOST_ARENAS: _ARENAS,
        }
        heeded = [mallopt(what, size) == 1 for what, size in wanted.items()]
        return all(heeded)
    return False


def give_back() -> None:
    """Return unused memory to the system, after the work."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
