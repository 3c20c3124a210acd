"""Reads session, database and time of a row, without parsing the rest of the row."""

from typing import Final, NamedTuple

from playhead.querylog.cutting import CSV_ADDRESS
from playhead.querylog.log_time import time_us as time_us_of
from playhead.querylog.rows import NotARow
from playhead.querylog.shapes import read_row

UNMATCHED: Final = "unmatched"
"""The topic's part for rows without a database, as in the older tool."""

_KEPT_BYTES: Final = 512
"""A longer beginning of a row, which no server writes, is not kept."""
_MOST_KEPT: Final = 4_096
_SECOND: Final = 20
_ZONE: Final = 23
"""The bytes of `2026-11-21 03:33:17.` and of `2026-11-21 03:33:17.580`."""
_LIKE: Final = slice(_ZONE, 64)
"""By these bytes a session is looked up: they differ unless the names of user and database are long."""
_MILLISECONDS: Final = {b"%03d" % ms: 1_000 * ms for ms in range(1_000)}


class Address(NamedTuple):
    """The parts of a row that a shipper needs."""

    session: bytes
    database: str | None
    time_us: int


class _Sender(NamedTuple):
    """The text that all rows of a session have behind their times, and its meaning."""

    text: bytes
    """From the time zone to the session."""
    session: bytes
    database: str | None
    east_us: int
    """How far its time zone is east of UTC."""


_senders: dict[bytes, _Sender] = {}
_seconds: dict[bytes, int] = {}
"""Times in µs since 1970 of the seconds of the last rows, as if their zone were UTC."""


def address_of(row: bytes, prefix: str | None = None) -> Address:
    """Return session, database and time of a row; raises `NotARow`."""
    sender = _senders.get(row[_LIKE])
    if sender is not None and row.startswith(sender.text, _ZONE):
        # `CSV_ADDRESS` matches equal bytes in the same way; only the time differs.
        second, ms = _seconds.get(row[:_SECOND]), _MILLISECONDS.get(row[_SECOND:_ZONE])
        if second is not None and ms is not None:
            time_us = second + ms - sender.east_us
            # As `Address(...)`, in a third of the time.
            return tuple.__new__(Address, (sender.session, sender.database, time_us))
    found = CSV_ADDRESS.match(row)
    if found is not None:
        address = Address(found[3], _database(found[2]), time_us_of(found[1].decode()))
        _keep(row[: found.end()], address)
        return address
    prefixes = () if prefix is None else (prefix,)
    read = read_row(row.rstrip(b"\n"), prefixes=prefixes)
    return Address(read.session.encode("utf-8", "replace"), read.database, read.time_us)


def _keep(beginning: bytes, address: Address) -> None:
    """Keep what the next rows of the session and of the second have in common with this one."""
    ms = _MILLISECONDS.get(beginning[_SECOND:_ZONE])
    if ms is None or not beginning.startswith(b".", _SECOND - 1) or len(beginning) > _KEPT_BYTES:
        return
    for kept in (_senders, _seconds):
        if len(kept) >= _MOST_KEPT:
            kept.clear()
    second = time_us_of(f"{beginning[:_SECOND].decode()}000 UTC")
    _seconds[beginning[:_SECOND]] = second
    east_us = second + ms - address.time_us
    _senders[beginning[_LIKE]] = _Sender(
        beginning[_ZONE:], address.session, address.database, east_us
    )


def _database(name: bytes | None) -> str | None:
    if not name:
        return None
    try:
        return name.decode().replace('""', '"')
    except UnicodeDecodeError:
        raise NotARow("the name of the database is not UTF-8") from None
