"""The contract of every format: encode groups of records as a file, always to equal bytes, and decode it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from playhead.account import Account
from playhead.files.file_names import Format
from playhead.files.stores.store import Piece
from playhead.printable import is_unicode
from playhead.record import Slice
from playhead.records import Records

_MOST_RECORDS = 250_000
_MOST_BYTES = 64_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

# The years 1 to 9999, which every tool supports; other times are stored only as numbers.
EARLIEST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MS
LATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
NO_TIME_MS = -1


@dataclass(slots=True)
class Group:
    """Records that can be written, optionally with their values as a table of typed columns."""

    records: Records
    typed: Any = None
    repeated: int = 0
    """How many of these values have the field of a typed column twice."""


class Codec(Protocol):
    """One format."""

    @property
    def name(self) -> Format:
        """The format's name."""
        ...

    def group(self, account: Account, records: Records, /) -> Group:
        """Return the records that the format can hold; refuse the others."""
        ...

    def encode(self, groups: Iterable[Group], /) -> list[Piece]:
        """Return the file of these groups; no pieces without a group."""
        ...

    def decode(self, data: bytes, slice_: Slice, /) -> Iterator[Records]:
        """Return the records of such a file in its order; any error means that it is damaged."""
        ...


def shown_times(timestamps_ms: Iterable[int]) -> list[str | None]:
    """Format times as RFC 3339 to the millisecond, in UTC; None for none, and outside the years 1 to 9999."""
    seconds: dict[int, str] = {}
    shown: list[str | None] = []
    for timestamp_ms in timestamps_ms:
        if timestamp_ms == NO_TIME_MS or not EARLIEST_MS <= timestamp_ms <= LATEST_MS:
            shown.append(None)
            continue
        second, ms = divmod(timestamp_ms, 1000)
        # Most neighbouring records share their second.
        if second not in seconds:
            seconds[second] = (_EPOCH + timedelta(seconds=second)).isoformat()[:19]
        shown.append(f"{seconds[second]}.{ms:03d}Z")
    return shown


def regrouped(
    runs: Iterable[Records], *, most_records: int = _MOST_RECORDS, most_bytes: int = _MOST_BYTES
) -> Iterator[Records]:
    """Yield groups with as many records as fit into both limits."""
    held: Records | None = None
    held_bytes = 0
    for run in runs:
        held = held or run.pick(())
        sizes, start = _sizes(run), 0
        total = sum(sizes)
        if len(held) + len(run) <= most_records and held_bytes + total <= most_bytes:
            held.extend(run)
            held_bytes += total
            continue
        for index, size in enumerate(sizes):
            count = len(held) + index - start
            if count and (count == most_records or held_bytes + size > most_bytes):
                held.extend(run.cut(start, index))
                yield held
                held, held_bytes, start = run.pick(()), 0, index
            held_bytes += size
        held.extend(run.cut(start, len(run)))
    if held:
        yield held


def sayable(account: Account, records: Records) -> Records:
    """Refuse records that no file can hold: those with header names that are not Unicode."""
    names = {name for headers in records.headers if headers for name, _ in headers}
    wrong = {name for name in names if not is_unicode(name)}
    if not wrong:
        return records
    kept = []
    for index, headers in enumerate(records.headers):
        found = wrong.intersection(name for name, _ in headers)
        if found:
            reason = f"the header name {min(found)!r} is not Unicode"
            account.refuse(records.record(index), kind="header", reason=reason)
        else:
            kept.append(index)
    return records.pick(kept)


def _sizes(run: Records) -> list[int]:
    keyed = zip(run.keys, run.values, strict=True)
    sizes = [(len(key) if key else 0) + (len(value) if value else 0) for key, value in keyed]
    for index, headers in enumerate(run.headers):
        if headers:
            sizes[index] += sum(len(name) + len(value or b"") for name, value in headers)
    return sizes
