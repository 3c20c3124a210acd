"""An array of numbers of consecutive statements or rows, whose beginning can be forgotten."""

from array import array
from collections.abc import Iterator


class Column:
    """An array that keeps its positions when its beginning is forgotten.

    A column of the default type takes 4 bytes for each number, and 8 from the first number on that needs them.
    """

    __slots__ = ("_items", "_start")

    def __init__(self, typecode: str = "i") -> None:
        self._items: array[int] = array(typecode)
        self._start = 0

    def __len__(self) -> int:
        """Return the number of elements, including forgotten ones."""
        return self._start + len(self._items)

    def __getitem__(self, at: int) -> int:
        if at < self._start:
            raise IndexError(f"Column: {at} is forgotten; the first that is kept is {self._start}")
        return self._items[at - self._start]

    def __setitem__(self, at: int, number: int) -> None:
        if at < self._start:
            raise IndexError(f"Column: {at} is forgotten; the first that is kept is {self._start}")
        try:
            self._items[at - self._start] = number
        except OverflowError:
            self._widen()
            self._items[at - self._start] = number

    def __iter__(self) -> Iterator[int]:
        """Iterate over the elements that are not forgotten."""
        return iter(self._items)

    def append(self, number: int) -> None:
        try:
            self._items.append(number)
        except OverflowError:
            self._widen()
            self._items.append(number)

    def extend(self, numbers: bytes) -> None:
        """Append numbers from their bytes."""
        self._items.extend(numbers)

    def forget(self, before: int) -> None:
        """Allow the elements before this position to be forgotten; this happens when they are half of all."""
        count = before - self._start
        if count * 2 > len(self._items):
            del self._items[:count]
            self._start = before

    def _widen(self) -> None:
        if self._items.typecode != "i":
            raise OverflowError(f"Column: the number does not fit into {self._items.typecode!r}")
        self._items = array("q", self._items)
