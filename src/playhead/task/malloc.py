"""Lets a process keep the memory that it frees while it works, where its C library would give it back at once."""

import ctypes
from contextlib import suppress
from functools import cache

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MOST_ARENAS = -1, -2, -3, -8
# As large as glibc takes it; what is larger is mapped and unmapped each time.
_MAPPED_FROM = 32 << 20
_GROWS_BY = 16 << 20
_GIVEN_BACK_FROM = 1 << 30
# One heap for all threads: each work has threads of its own, and what a heap of theirs had kept, in
# pieces too small to be given back, was of no use to the next work's. They seldom wait for each other.
_ARENAS = 1


@cache
def keep_memory() -> bool:
    """Ask for it; says whether anybody listened.

    A slice's columns, a fetch, a slice's text: all are some megabytes, and are wanted again at once.
    To have the system clear their pages each time took a quarter of what reading costs.
    """
    with suppress(OSError, AttributeError):  # another C library, which has its own ways
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
    """Give the system what is kept and not used: the work is over."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
