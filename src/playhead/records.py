"""Records of one partition as columns: the form in which Playhead moves records."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import mul, xor
from struct import pack
from typing import Any, cast
from zlib import crc32

from playhead.checksum import NOTHING, Checksum, ColumnSums
from playhead.record import Headers, Record, TimestampType

# The memory of a record beside its key and value; used only for limits.
_OVERHEAD_BYTES = 64
# A checksum uses this for a null key or value, so that it differs from an empty one.
_NULL = bytes.fromhex("b1d0a3f7c26e49588e1f7a90d45c3b62")
# Separates key and value in a checksum, so that no byte can move between them. Not all ones: a CRC
# ignores zero bytes after that state.
_BETWEEN = 0x5BD1_E995
# Follows each key and each value where they are joined.
_BEHIND = bytes.fromhex("e3719c04b82fd65a")
_MODULUS = 1 << 64
# This many are joined at a time: their bytes are still in the processor's cache when they are
# summed.
_IN_CACHE = 2_000
UNSUMMED = -1
"""Stands for a content sum that was not computed before the record was changed."""


@dataclass(slots=True)
class Records:
    """Records of one partition in offset order; all columns have the same length.

    The columns are plain lists, because a record mostly moves from one C library to the next, and one
    object for each record would cost more than everything else. Values are as in `Record`.
    """

    topic: str
    partition: int
    offsets: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    timestamp_types: list[int] = field(default_factory=list)
    """Values of `TimestampType`."""
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    decoded: list[bytes | None] | None = None
    """The decoded values, as JSON or other text; None without a decoder."""
    undecoded: dict[int, str] = field(default_factory=dict)
    """By offset, why a value could not be decoded, or the record not be read."""
    sums: list[int] | None = None
    """The `content_sums` from before the records were transformed."""
    unselectable: dict[int, str] = field(default_factory=dict)
    """By offset, why selected fields cannot be read; this matters only for records that are kept."""

    @property
    def readable(self) -> list[bytes | None]:
        """The decoded values, or the raw values without a decoder."""
        return self.values if self.decoded is None else self.decoded

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Record]:
        return (self.record(index) for index in range(len(self)))

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Records":
        """Return the records of one partition, at least one, as columns."""
        rows = list(records)
        topic, partition = rows[0].topic, rows[0].partition
        if any((row.topic, row.partition) != (topic, partition) for row in rows):
            raise ValueError(
                "Records.of: found records of several partitions, needed one partition"
            )
        return cls(
            topic,
            partition,
            [row.offset for row in rows],
            [row.timestamp_ms for row in rows],
            [row.timestamp_type.value for row in rows],
            [row.key for row in rows],
            [row.value for row in rows],
            [row.headers for row in rows],
        )

    def record(self, index: int) -> Record:
        """Return the record with this index."""
        return Record(
            self.topic,
            self.partition,
            self.offsets[index],
            self.timestamps_ms[index],
            TimestampType(self.timestamp_types[index]),
            self.keys[index],
            self.values[index],
            self.headers[index],
        )

    def extend(self, more: "Records") -> None:
        """Append records of the same partition that follow."""
        if self.sums is not None or more.sums is not None:
            self.sums = self._summed() + more._summed()
        if self.decoded is not None or more.decoded is not None:
            self.decoded = list(self.values) if self.decoded is None else self.decoded
            self.decoded += more.readable
            # Other objects may share them.
            self.undecoded = self.undecoded | more.undecoded
            self.unselectable = self.unselectable | more.unselectable
        self.offsets += more.offsets
        self.timestamps_ms += more.timestamps_ms
        self.timestamp_types += more.timestamp_types
        self.keys += more.keys
        self.values += more.values
        self.headers += more.headers

    def cut(self, start: int, stop: int) -> "Records":
        """Return the records with an index in `[start, stop)`; neither may be negative."""
        if start <= 0 and stop >= len(self):
            return self
        return self._with_columns(lambda column: column[start:stop])

    def pick(self, indexes: Sequence[int]) -> "Records":
        """Return the records with the given indexes, in that order."""
        return self._with_columns(lambda column: [column[i] for i in indexes])

    def _with_columns(self, take: Callable[[list[Any]], list[Any]]) -> "Records":
        return Records(
            self.topic,
            self.partition,
            take(self.offsets),
            take(self.timestamps_ms),
            take(self.timestamp_types),
            take(self.keys),
            take(self.values),
            take(self.headers),
            None if self.decoded is None else take(self.decoded),
            self.undecoded,
            None if self.sums is None else take(self.sums),
            self.unselectable,
        )

    def checksum(self, before: Checksum = NOTHING) -> Checksum | None:
        """Return the checksum of all records as they were read, continuing `before`; None if
        unknown.

        If records carry their own sums, or `before` is an integer, the result is a sum over the records in
        which a part is weighted by the offset, because otherwise two records could change places unnoticed.
        """
        if isinstance(before, ColumnSums):
            if self.sums is None:
                for start in range(0, len(self), _IN_CACHE):
                    before = before.after(self.cut(start, start + _IN_CACHE)._joined())
                return before
            if before:
                return None
            before = 0
        sums = self._summed()
        if UNSUMMED in sums:
            return None
        products: Iterator[int] = map(mul, sums, self.offsets)
        return (before + 2 * sum(products) + sum(sums)) % _MODULUS

    def _joined(self) -> Iterator[bytes]:
        """Return each column's bytes joined, in the form that a following run can continue."""
        count = len(self)
        yield pack(f"<{count}q", *self.offsets)
        yield pack(f"<{count}q", *self.timestamps_ms)
        yield pack(f"<{count}b", *self.timestamp_types)
        yield _in_one(self.keys)
        yield _in_one(self.values)
        held = zip(self.offsets, self.headers, strict=True) if any(self.headers) else ()
        yield "".join(f"{offset}{each!a}" for offset, each in held if each).encode()

    def content_sums(self) -> list[int]:
        """Return one number for each record, computed from everything but its offset."""
        return [each + _high(at) for each, at in zip(self._crcs(), self.timestamps_ms, strict=True)]

    def _summed(self) -> list[int]:
        return self.content_sums() if self.sums is None else self.sums

    def _crcs(self) -> list[int]:
        keys, values = _without_nulls(self.keys), _without_nulls(self.values)
        # Only the lower 32 bits of a timestamp fit.
        of_keys = map(xor, map(crc32, keys, self.timestamps_ms), repeat(_BETWEEN))
        found = [*map(crc32, values, of_keys)]
        if not any(self.headers):
            return found
        return [
            crc32(ascii(held).encode(), each ^ _BETWEEN) if held else each
            for held, each in zip(self.headers, found, strict=True)
        ]

    def size_bytes(self) -> int:
        """Return the approximate memory of all records: the sum of `sizes_bytes`, without a Python loop."""
        bodies = (self.keys, self.values, self.decoded or ())
        of_bodies = sum(sum(map(len, filter(None, each))) for each in bodies)
        return _OVERHEAD_BYTES * len(self) + of_bodies + sum(map(_size, filter(None, self.headers)))

    def sizes_bytes(self) -> list[int]:
        """Return the approximate memory of each record."""
        sizes = [
            _OVERHEAD_BYTES + len(key or b"") + len(value or b"") + (_size(held) if held else 0)
            for key, value, held in zip(self.keys, self.values, self.headers, strict=True)
        ]
        if self.decoded is None:
            return sizes
        return [size + len(each or b"") for size, each in zip(sizes, self.decoded, strict=True)]


def _high(timestamp_ms: int) -> int:
    """Return the upper bits of a timestamp, which do not fit into the 32; never negative."""
    return timestamp_ms & 0x7FFF_FFFF_0000_0000


def _in_one(column: Sequence[bytes | None]) -> bytes:
    try:
        return _BEHIND.join([*cast("Sequence[bytes]", column), b""])
    except TypeError:  # Looking for nulls first would cost a tenth of the whole.
        return _BEHIND.join([*_without_nulls(column), b""])


def _without_nulls(column: Sequence[bytes | None]) -> Sequence[bytes]:
    if None in column:
        return [_NULL if each is None else each for each in column]
    return cast("Sequence[bytes]", column)


def _size(headers: Headers) -> int:
    return sum(_OVERHEAD_BYTES + len(name) + len(value or b"") for name, value in headers)
