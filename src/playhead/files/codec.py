"""The contract of every format: encode groups of records as a file, always to equal bytes, and decode it."""

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

# The years 1 to 9999, which every tool supports; other times are stored only as numbers.
EARLIEST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MS
LATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
NO_TIME_MS = -1


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
