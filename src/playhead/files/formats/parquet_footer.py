"""Reads what the footer of a Parquet file says of its columns.

The library ends the process by a signal where it is asked for a column that its footer describes wrongly, and
takes a column's name from another place than the one by which it reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from playhead.files.formats.parquet_pages import NAMES, Compact

_MAGIC: Final = b"PAR1"
_END: Final = 8  # the length of the footer, and the magic
_MOST_BYTES: Final = 16 << 20
# Three bytes of the footer become most of a kilobyte in the reader.
_MOST_COLUMNS: Final = 100_000
_OTHER: Final = "its groups of rows have other columns than its schema"
_MOST_PARTS: Final = 2_000_000
_DEEPEST: Final = 12

_LIST, _SET, _STRUCT, _BINARY = 9, 10, 12, 8
_TRUE, _FALSE, _BYTE, _DOUBLE = 1, 2, 3, 7
_INT, _LONG = 5, 6
_NUMBERS: Final = (4, _INT, _LONG)
# Fields of Parquet's own definitions, with their types.
_SCHEMA, _ROWS, _GROUPS, _MADE_BY = (2, _LIST), (3, _LONG), (4, _LIST), (6, _BINARY)
_NAME, _CHILDREN = (4, _BINARY), (5, _INT)
_COLUMNS = (1, _LIST)
_ABOUT, _ENCRYPTED = (3, _STRUCT), (8, 9)
_VALUES, _UNFOLDED, _PACKED = (5, _LONG), (6, _LONG), (7, _LONG)
_DATA, _DICTIONARY = (9, _LONG), (11, _LONG)
_NEEDED: Final = (_VALUES, _UNFOLDED, _PACKED, _DATA)
# Files of others may be read beyond the end of a column: the library forgives what they once did wrong.
_OURS: Final = b"parquet-cpp-arrow version "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a group of rows: where its pages are, and their sizes."""

    path: str
    values: int
    unfolded: int
    packed: int
    start: int


@dataclass(slots=True)
class Footer:
    """The number of records of a file, and the columns of all its groups of rows."""

    rows: int = 0
    columns: list[Column] = field(default_factory=list)


def read(data: bytes) -> Footer:
    """Return what a footer says; raise ValueError for one that no file of ours has."""
    if len(data) < 2 * _END or data[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("it has no footer")
    length = int.from_bytes(data[-_END : -len(_MAGIC)], "little")
    end = len(data) - _END
    if length > min(end, _MOST_BYTES):
        raise ValueError(f"its footer has {length:,} bytes")
    return _Reader(data, end - length, end).read()


class _Reader(Compact):
    """Walks through a footer."""

    _parts = 0

    def read(self) -> Footer:
        footer = Footer()
        leaves: list[str] | None = None
        made_by = b""
        for part in self._fields():
            if part == _SCHEMA:
                leaves = _leaves([self._element() for _ in self._structs()])
            elif part == _ROWS:
                footer.rows = self._signed()
            elif part == _GROUPS:
                if leaves is None:
                    raise ValueError("its footer has no schema before its groups of rows")
                for _ in self._structs():
                    footer.columns += self._group(leaves)
                    if len(footer.columns) > _MOST_COLUMNS:
                        raise ValueError(f"its groups have more than {_MOST_COLUMNS:,} columns")
            elif part == _MADE_BY:
                made_by = self._bytes()
            else:
                self._skip(part[1])
        if not made_by.startswith(_OURS):
            raise ValueError("another program has written it")
        return footer

    def _element(self) -> tuple[str, int]:
        """Return the name of an element of the schema, and the number of elements in it."""
        name, children = "", 0
        for part in self._fields():
            if part == _NAME:
                name = self._bytes().decode("utf-8", "replace")
            elif part == _CHILDREN:
                children = self._signed()
            else:
                self._skip(part[1])
        return name, children

    def _group(self, leaves: list[str]) -> list[Column]:
        found: list[Column] = []
        for part in self._fields():
            if part == _COLUMNS:
                for _ in self._structs():
                    if len(found) == len(leaves):
                        raise ValueError(_OTHER)
                    found.append(self._column(leaves[len(found)]))
            else:
                self._skip(part[1])
        if len(found) != len(leaves):
            raise ValueError(_OTHER)
        return found

    def _column(self, path: str) -> Column:
        found: Column | None = None
        for part in self._fields():
            if part[0] in _ENCRYPTED:
                raise ValueError("it has encrypted columns")
            if part == _ABOUT:
                found = self._about(path)
            else:
                self._skip(part[1])
        if found is None:
            raise ValueError(f"its footer does not describe the column {path}")
        return found

    def _about(self, path: str) -> Column:
        said: dict[tuple[int, int], int] = {}
        for part in self._fields():
            if part in (*_NEEDED, _DICTIONARY):
                said[part] = self._signed()
            else:
                self._skip(part[1])
        if any(said.get(each, -1) < 0 for each in _NEEDED):
            raise ValueError(f"its footer does not describe the column {path}")
        start, dictionary = said[_DATA], said.get(_DICTIONARY, 0)
        return Column(
            path,
            said[_VALUES],
            said[_UNFOLDED],
            said[_PACKED],
            dictionary if 0 < dictionary < start else start,
        )

    # --- the protocol

    def _bytes(self) -> bytes:
        length = self._number()
        found = self._data[self.at : min(self.at + length, self._end)]
        self.at += length
        return found

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
        for _ in self._counted(size):
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
            for _ in self._counted(size):
                # In a list, true and false are a byte each.
                self._skip(_BYTE if of_items in (_TRUE, _FALSE) else of_items, depth + 1)
        elif kind == _STRUCT:
            for _, of_field in self._fields():
                self._skip(of_field, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise ValueError(f"its footer has a field of the type {kind}")

    def _counted(self, size: int) -> Iterator[int]:
        for each in range(size):
            self._count()
            yield each

    def _count(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS or self.at > self._end:
            raise ValueError("its footer has too many parts, or is cut off")


def _leaves(elements: list[tuple[str, int]]) -> list[str]:
    """Return the paths of a schema's columns, in the order by which the library reads them."""
    found: list[str] = []
    # Names, and how many elements are still to come there; the root has no name in a path.
    parents: list[tuple[list[str], int]] = []
    for index, (name, children) in enumerate(elements):
        path = [*parents[-1][0], name] if parents else []
        if parents:
            parents[-1] = (parents[-1][0], parents[-1][1] - 1)
        elif index:
            raise ValueError("its schema has more than one root")
        if children > 0:
            parents.append((path, children))
            if len(parents) > _DEEPEST:
                raise ValueError("its schema is nested too deeply")
        elif index:
            found.append(".".join(path))
        while parents and parents[-1][1] == 0:
            parents.pop()
    if parents:
        raise ValueError("its schema ends early")
    if len(found) > _MOST_COLUMNS:
        raise ValueError(f"its schema has more than {_MOST_COLUMNS:,} columns")
    # Of two, the library says how to read one, and reads the other; a name may have a dot in it.
    if len(set(found)) < len(found):
        raise ValueError("its schema has two columns of one name")
    return found
