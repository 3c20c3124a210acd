"""Reads session, database and time of a row, without parsing the rest of the row."""

from functools import lru_cache
from typing import Final, NamedTuple

from playhead.querylog.cutting import CSV_ADDRESS
from playhead.querylog.log_time import time_us
from playhead.querylog.rows import NotARow
from playhead.querylog.shapes import read_row

UNMATCHED: Final = "unmatched"
"""The topic's part for rows without a database, as in the older tool."""

_KEPT_BYTES: Final = 256
"""A longer name of a database, which no server writes, is not kept."""


class Address(NamedTuple):
    """The parts of a row that a shipper needs."""

    session: bytes
    database: str | None
    time_us: int


def address_of(row: bytes, prefix: str | None = None) -> Address:
    """Return session, database and time of a row; raises `NotARow`."""
    found = CSV_ADDRESS.match(row)
    if found is not None:
        return Address(found[3], _database(found[2]), time_us(found[1].decode()))
    prefixes = () if prefix is None else (prefix,)
    read = read_row(row.rstrip(b"\n"), prefixes=prefixes)
    return Address(read.session.encode("utf-8", "replace"), read.database, read.time_us)


def _database(name: bytes | None) -> str | None:
    if not name:
        return None
    return _decoded(name) if len(name) <= _KEPT_BYTES else _decoded.__wrapped__(name)


@lru_cache(maxsize=1_024)
def _decoded(name: bytes) -> str:
    try:
        return name.decode().replace('""', '"')
    except UnicodeDecodeError:
        raise NotARow("the name of the database is not UTF-8") from None
