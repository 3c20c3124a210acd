"""A record of a log, and a slice: a run of offsets of one partition that commits as a whole."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

Headers = tuple[tuple[str, bytes | None], ...]


class TimestampType(Enum):
    """Who set a record's timestamp; the values are Kafka's own ids, which Spark uses too."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


_MOST: Final = (1 << 63) - 1
"""The highest offset there can be."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record, byte for byte as in the log.

    Key, value and header values are bytes or None; None (null) is not b"" (empty). Headers keep their
    order and may repeat. `timestamp_ms` is the raw number: -1 is "none"; other negative numbers, which a
    producer can set by mistake, are kept.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def __post_init__(self) -> None:
        _need_place(self, "offset")
        _need_int(self, "timestamp_ms")
        if not isinstance(self.timestamp_type, TimestampType):
            raise _wrong_type("Record.timestamp_type", self.timestamp_type, "a TimestampType")
        _need_bytes("Record.key", self.key)
        _need_bytes("Record.value", self.value)
        _need_headers(self.headers)


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """The offsets `[from_offset, to_offset)` of one partition; never empty; sorted by topic, partition, offset."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int

    def __post_init__(self) -> None:
        _need_place(self, "from_offset")
        _need_int(self, "to_offset")
        if self.to_offset > _MOST:
            raise ValueError(f"Slice.to_offset: found {self.to_offset}, needed at most {_MOST}")
        if self.to_offset <= self.from_offset:
            raise ValueError(
                f"Slice.to_offset: found {self.to_offset}, needed more than from_offset {self.from_offset}"
            )

    @property
    def place(self) -> tuple[str, int]:
        """Return the topic and the partition."""
        return self.topic, self.partition

    def __contains__(self, item: "int | Record") -> bool:
        """Return whether the slice contains an offset, or a record of its partition."""
        if isinstance(item, Record):
            return (item.topic, item.partition) == self.place and item.offset in self
        return self.from_offset <= item < self.to_offset

    def __len__(self) -> int:
        """Return the number of offsets, not of records: offsets may be absent."""
        return self.to_offset - self.from_offset

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.from_offset}-{self.to_offset}"

    def pieces(self, most: int) -> "Iterator[Slice]":
        """Return slices of at most `most` offsets that make up this one."""
        for start in range(self.from_offset, self.to_offset, most):
            yield replace(self, from_offset=start, to_offset=min(start + most, self.to_offset))

    def overlaps(self, other: "Slice") -> bool:
        """Return whether the two slices have an offset in common."""
        return (
            self.place == other.place
            and self.from_offset < other.to_offset
            and other.from_offset < self.to_offset
        )


def joined_spans(slices: Iterable[Slice]) -> list[Slice]:
    """Return the offsets of all slices in order, neighbours joined."""
    spans: list[Slice] = []
    for slice_ in sorted(slices):
        last = spans[-1] if spans else None
        if last is not None and (last.place, last.to_offset) == (slice_.place, slice_.from_offset):
            spans[-1] = replace(last, to_offset=slice_.to_offset)
        else:
            spans.append(slice_)
    return spans


def _need_place(item: Record | Slice, offset_field: str) -> None:
    owner = type(item).__name__
    if not isinstance(item.topic, str):
        raise _wrong_type(f"{owner}.topic", item.topic, "a str")
    if not item.topic:
        raise ValueError(f"{owner}.topic: found an empty str, needed a name")
    for name in ("partition", offset_field):
        _need_int(item, name)
        if getattr(item, name) < 0:
            raise ValueError(f"{owner}.{name}: found {getattr(item, name)}, needed 0 or more")


def _need_int(item: Record | Slice, name: str) -> None:
    value = getattr(item, name)
    # Not isinstance: it accepts True as an int, and partition True is a mistake.
    if type(value) is not int:
        raise _wrong_type(f"{type(item).__name__}.{name}", value, "an int")


def _need_bytes(where: str, value: object) -> None:
    if value is not None and not isinstance(value, bytes):
        raise _wrong_type(where, value, "bytes or None")


def _need_headers(headers: object) -> None:
    if not isinstance(headers, tuple):
        raise _wrong_type("Record.headers", headers, "a tuple of (str, bytes or None)")
    for index, header in enumerate(headers):
        where = f"Record.headers[{index}]"
        if not isinstance(header, tuple) or len(header) != 2:
            raise _wrong_type(where, header, "a pair (str, bytes or None)")
        if not isinstance(header[0], str):
            raise _wrong_type(f"{where} name", header[0], "a str")
        _need_bytes(f"{where} value", header[1])


def _wrong_type(where: str, found: object, needed: str) -> TypeError:
    # Only the type: the value may be private data and must not reach a log.
    return TypeError(f"{where}: found {type(found).__name__}, needed {needed}")
