"""Keeps connections open from one use to the next, within a block of one thread."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import TypeVar

Connection = TypeVar("Connection")


class _Kept:
    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.opened: dict[Hashable, object] = {}


_kept: ContextVar[_Kept | None] = ContextVar("kept", default=None)


@contextmanager
def keeping_open() -> Iterator[None]:
    """In this block, open a connection once that is used again and again; a block within another adds nothing.

    Connecting takes longer than most of what is asked. Other threads do not see the block.
    """
    if _kept.get() is not None:
        yield
        return
    with ExitStack() as stack:
        before = _kept.set(_Kept(stack))
        try:
            yield
        finally:
            _kept.reset(before)


def kept_open(
    key: Hashable, connect: Callable[[], AbstractContextManager[Connection]]
) -> Connection | None:
    """Return the connection of this key, opened now or earlier in the block; None outside of a block."""
    kept = _kept.get()
    if kept is None:
        return None
    if key not in kept.opened:
        kept.opened[key] = kept.stack.enter_context(connect())
    return kept.opened[key]  # type: ignore[return-value]  # it was opened under this key
