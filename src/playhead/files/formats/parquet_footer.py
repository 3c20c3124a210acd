"""Refuses footers of Parquet files with which its reader ends the process, or fills the memory."""

from collections.abc import Iterator
from typing import Final

from playhead.files.formats.parquet_pages import NAMES, Compact

_MAGIC: Final = b"PAR1"
_END: Final = 8  # the length of the footer, and the magic
_MOST_BYTES: Final = 16 << 20
# Three bytes of the footer become most of a kilobyte in the reader.
_MOST_COLUMNS: Final = 200_000
_MOST_PARTS: Final = 2_000_000
_DEEPEST: Final = 12

_LIST, _SET, _STRUCT, _BINARY = 9, 10, 12, 8
_TRUE, _FALSE, _BYTE, _DOUBLE = 1, 2, 3, 7
_NUMBERS: Final = (4, 5, 6)
# Fields of Parquet's own definitions.
_SCHEMA, _GROUPS = 2, 4
_CHILDREN = 5
_COLUMNS = 1
_ENCRYPTED: Final = (8, 9)


def check(data: bytes) -> None:
    """Raise ValueError for a footer that no file of ours has."""
    if len(data) < 2 * _END or data[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("it has no footer")
    length = int.from_bytes(data[-_END : -len(_MAGIC)], "little")
    end = len(data) - _END
    if length > min(end, _MOST_BYTES):
        raise ValueError(f"its footer has {length:,} bytes")
    _Footer(data, end - length, end).check()


class _Footer(Compact):
    """Walks through a footer; counts columns, and refuses encrypted ones."""

    _parts = _columns = 0

    def check(self) -> None:
        leaves: int | None = None
        groups: list[int] = []
        for name, kind in self._fields():
            if name == _SCHEMA and kind == _LIST:
                leaves = sum(self._is_leaf() for _ in self._structs())
            elif name == _GROUPS and kind == _LIST:
                groups = [self._group() for _ in self._structs()]
            else:
                self._skip(kind)
        if any(each != leaves for each in groups):
            raise ValueError("its groups of rows have other columns than its schema")

    def _is_leaf(self) -> bool:
        children = 0
        for name, kind in self._fields():
            if name == _CHILDREN and kind in _NUMBERS:
                children = self._signed()
            else:
                self._skip(kind)
        return children <= 0

    def _group(self) -> int:
        """Return the number of columns of a group of rows."""
        count = 0
        for name, kind in self._fields():
            if name == _COLUMNS and kind == _LIST:
                for _ in self._structs():
                    self._column()
                    count += 1
            else:
                self._skip(kind)
        return count

    def _column(self) -> None:
        self._columns += 1
        if self._columns > _MOST_COLUMNS:
            raise ValueError(f"its groups of rows have more than {_MOST_COLUMNS:,} columns")
        for name, kind in self._fields():
            if name in _ENCRYPTED:
                raise ValueError("it has encrypted columns")
            self._skip(kind)

    # --- the protocol

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Yield the number and the type of each field; the caller reads or skips it."""
        seen: set[int] = set()
        name = 0
        while said := self._byte():
            name = name + (said >> 4) if said >> 4 else self._signed()
            # The reader takes the last one, and only 16 bits of its number.
            if name in seen or not 0 < name < NAMES:
                raise ValueError(f"its footer has the field {name} twice, or no such field")
            seen.add(name)
            self._count()
            yield name, said & 15

    def _structs(self) -> Iterator[None]:
        """Yield for each structure of a list; the caller reads it."""
        size, kind = self._list()
        if size and kind != _STRUCT:
            raise ValueError(f"its footer has a list of the type {kind}")
        for _ in range(size):
            self._count()
            yield

    def _list(self) -> tuple[int, int]:
        said = self._byte()
        size = said >> 4
        return (self._number() if size == 15 else size), said & 15

    def _skip(self, kind: int, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        if kind in _NUMBERS:
            self._number()
        elif kind == _BINARY:
            length = self._number()
            self.at += length
        elif kind in (_BYTE, _DOUBLE):
            self.at += 1 if kind == _BYTE else 8
        elif kind in (_LIST, _SET):
            size, of_items = self._list()
            for _ in range(size):
                self._count()
                # In a list, true and false are a byte each.
                self._skip(_BYTE if of_items in (_TRUE, _FALSE) else of_items, depth + 1)
        elif kind == _STRUCT:
            for _, of_field in self._fields():
                self._skip(of_field, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise ValueError(f"its footer has a field of the type {kind}")

    def _count(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS or self.at > self._end:
            raise ValueError("its footer has too many parts, or is cut off")
