"""What every format does: turn groups of records into a file, the same bytes each time, and back."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Protocol

from playhead.account import Account
from playhead.files.file_names import Format
from playhead.files.regroup import Group
from playhead.files.stores.store import Piece
from playhead.record import Slice
from playhead.records import Records

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

# The years 1 to 9999, which every tool knows; times outside of it are kept as numbers alone.
EARLIEST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MS
LATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
NO_TIME_MS = -1


class Codec(Protocol):
    """One format."""

    @property
    def name(self) -> Format:
        """By which people call it."""
        ...

    def group(self, account: Account, records: Records, /) -> Group:
        """Those of the records that the format can hold; the others are refused."""
        ...

    def encode(self, groups: Iterable[Group], /) -> list[Piece]:
        """The file of these groups; no pieces where there is no group."""
        ...

    def decode(self, data: bytes, slice_: Slice, /) -> Iterator[Records]:
        """The records of such a file, in its order; any error means that it is damaged."""
        ...


def shown_times(timestamps_ms: Iterable[int]) -> list[str | None]:
    """Times as RFC 3339 to the millisecond, in UTC; None for none, and outside the years 1 to 9999."""
    seconds: dict[int, str] = {}
    shown: list[str | None] = []
    for timestamp_ms in timestamps_ms:
        if timestamp_ms == NO_TIME_MS or not EARLIEST_MS <= timestamp_ms <= LATEST_MS:
            shown.append(None)
            continue
        second, ms = divmod(timestamp_ms, 1000)
        # Records stand close together: most share their second with many others.
        if second not in seconds:
            seconds[second] = (_EPOCH + timedelta(seconds=second)).isoformat()[:19]
        shown.append(f"{seconds[second]}.{ms:03d}Z")
    return shown
