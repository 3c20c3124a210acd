"""Finds out whether record sets of one partition have different records at the same offset."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from playhead.traffic.catalog import CatalogRow
from playhead.traffic.record_columns import TrafficColumns

if TYPE_CHECKING:
    from playhead.traffic.partition_offsets import PlacedSet

Contents = Callable[[], AbstractContextManager[Callable[[CatalogRow], TrafficColumns]]]
"""Opens the capture, to read the records of record sets."""
_MOST_KNOWN: Final = 1_000_000


class TooManyOverlaps(Exception):
    """More record sets overlap than can be kept apart."""


def contradict(ordered: Sequence["PlacedSet"], contents: Contents) -> bool:
    """Return whether they do; only sets that overlap, and are not equal by their hashes, are read."""
    doubted = [*_doubted(ordered)]
    if not doubted:
        return False
    with contents() as columns_of:
        return any(_differ(together, columns_of) for together in doubted)


def _doubted(ordered: Sequence["PlacedSet"]) -> Iterator[list["PlacedSet"]]:
    """Yield record sets that overlap each other, equal ones once."""
    together: list[PlacedSet] = []
    seen: set[tuple[int, int, int, int]] = set()
    reached = -1
    for each in ordered:
        row = each.row
        known = (each.from_offset, each.to_offset, row.records, row.mark)
        if row.mark and known in seen:
            continue
        if each.from_offset >= reached:
            if len(together) > 1:
                yield together
            together = []
            seen.clear()
        seen.add(known)
        together.append(each)
        reached = max(reached, each.to_offset)
    if len(together) > 1:
        yield together


def _differ(
    together: Sequence["PlacedSet"], columns_of: Callable[[CatalogRow], TrafficColumns]
) -> bool:
    """Times do not count: a broker may give a produced record its own."""
    known: dict[int, int] = {}
    for each in together:
        columns = columns_of(each.row)
        records = zip(columns.keys, columns.values, columns.headers, strict=True)
        for offset, record in zip(columns.offsets, records, strict=True):
            content = hash(record)
            if known.setdefault(each.row.base + offset, content) != content:
                return True
        if len(known) > _MOST_KNOWN:
            known = {offset: held for offset, held in known.items() if offset >= each.from_offset}
            if len(known) > _MOST_KNOWN:
                raise TooManyOverlaps
    return False
