"""A cache with a limit for the size of its content, because others decide how much there is to keep."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by key; beyond the limit, what was kept first goes first."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._values: dict[K, V] = {}
        self._sizes: dict[K, int] = {}

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def keep(self, key: K, value: V, size: int) -> None:
        """Keep a value that is new; one that is larger than the limit is kept alone."""
        while self._values and self._size + size > self._most:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self._size -= self._sizes.pop(oldest)
        self._values[key], self._sizes[key] = value, size
        self._size += size
