"""Rows with their position in the file, and the topic and headers of their records."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from playhead.querylog.addresses import UNMATCHED, address_of
from playhead.querylog.cutting import LongRow
from playhead.querylog.rows import NotARow
from playhead.record import Headers

PLACE_HEADER: Final = "log.place"
DATABASE: Final = "{db}"
TOPIC: Final = f"pg_raw_{DATABASE}"
_FILE_BITS: Final = 40
"""Upper limit of a log file's size: a terabyte."""
# Kafka treats `a.b` and `a_b` as one name and refuses the second, so a dot would stop the shipper.
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)
_MOST_OF_A_NAME: Final = 249
_NOT_OF_LOGS: Final = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "playhead_ledger")
)
"""Topics of brokers, and of Playhead itself, with `_` for dots."""


class LocatedRow(NamedTuple):
    """A row with its position; a row that cannot be parsed has no session, and the time of the row before it."""

    start: int
    length: int
    """The bytes of the row, with its line end."""
    line: int
    """Line number in the file, or in the part that was read; the first line is 1."""
    value: bytes
    session: bytes | None
    database: str | None
    time_us: int
    reason: str | None
    """Why it cannot be parsed; None if it can."""
    is_too_long: bool = False
    """Whether the value is a sentence in place of the row."""


def located(
    rows: Iterable[bytes], start: int = 0, *, prefix: str | None = None, time_us: int = 0
) -> Iterator[LocatedRow]:
    """Yield adjacent rows from a byte on."""
    line = 1
    for row in rows:
        value = row.removesuffix(b"\n")
        length, lines = len(row), row.count(b"\n")
        session = database = reason = None
        long = row if isinstance(row, LongRow) else None
        if long is not None:
            length, lines = long.length, long.lines
            reason = f"it is too long: {length:,} bytes"
        else:
            try:
                session, database, time_us = address_of(row, prefix)
            except NotARow as exc:
                reason = str(exc)
        found = (start, length, line, value, session, database, time_us, reason)
        # As `LocatedRow(...)`, in a third of the time.
        yield tuple.__new__(LocatedRow, (*found, long is not None))
        start += length
        line += lines


def place_of(file: int, start: int) -> int:
    """Return the place of a row in the whole log: ordered by file, then by byte."""
    return file << _FILE_BITS | start


def place_header(place: int) -> tuple[str, bytes]:
    """Return the header with a row's place, which orders the rows of all partitions."""
    return PLACE_HEADER, b"%d" % place


def headers_of(place: int) -> Headers:
    """Return the headers of a row's record."""
    return (place_header(place),)


def place_in(headers: Headers) -> int | None:
    """Return the place in a record's headers; None if there is none."""
    for name, value in headers:
        if name == PLACE_HEADER and value is not None and value.isdigit() and len(value) < 20:
            return int(value)
    return None


def topic_of(database: str | None, pattern: str = TOPIC) -> str:
    """Return the topic of a database's rows; dots and characters that are not valid in topic names become `_`.

    A client chooses the name of the database that it requests, and the database need not exist. If the name would
    give a topic of the brokers or of Playhead, the result is the topic of rows without a database.
    """
    is_long = database is not None and len(database) > _MOST_OF_A_NAME
    return _topic_of(None if is_long else database, pattern)


@lru_cache(maxsize=1_024)
def _topic_of(database: str | None, pattern: str) -> str:
    topic = pattern.replace(DATABASE, _NOT_IN_A_NAME.sub("_", database or UNMATCHED))
    if topic.replace(".", "_") not in _NOT_OF_LOGS and len(topic) <= _MOST_OF_A_NAME:
        return topic
    return pattern.replace(DATABASE, UNMATCHED)
