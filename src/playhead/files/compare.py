"""Compares a slice of the source with the archive, record by record."""

import hashlib
from collections.abc import Iterable
from itertools import chain

from playhead.account import Account, ErrorRule
from playhead.files.archive import Archive, ArchivedReplay
from playhead.files.codec import regrouped
from playhead.files.errors import Damaged
from playhead.ledger import Entry
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.target import Difference, SliceComparison
from playhead.task.tally import SHOWN

_DIGEST_BYTES = 16
_FIELDS = ("timestamp_ms", "timestamp_type", "key", "value", "headers")


def compared(archive: Archive, entry: Entry, records: Iterable[Records]) -> SliceComparison:
    """Compare the records that a commit should have left with those of the archive."""
    needed = {each.offset: each for each in _writable(archive, entry.slice, records)}
    damage: str | None = None
    try:
        found = {each.offset: each for each in _archived(archive, entry)}
    except Damaged as error:
        found, damage = {}, error.message
    differing = [
        offset
        for offset in sorted(needed.keys() | found.keys())
        if needed.get(offset) != found.get(offset)
    ]
    differences = [
        _difference(entry.slice, offset, needed.get(offset), found.get(offset))
        for offset in differing[:SHOWN]
    ]
    if damage is not None:
        differences = [Difference("changed", *entry.slice.place, None, damage), *differences]
    return SliceComparison(
        entry.slice,
        expected=len(needed),
        found=len(found),
        expected_checksum=_checksum(needed.values()),
        found_checksum=_checksum(found.values()),
        differences=tuple(differences[:SHOWN]),
        different=len(differing) + (damage is not None and not differing),
        same=sum(needed[offset] == found.get(offset) for offset in needed),
    )


def _writable(archive: Archive, slice_: Slice, records: Iterable[Records]) -> Iterable[Record]:
    # Stands in for the account of the commit, which refused the same records.
    account = Account(slice_, ErrorRule("skip"))
    groups = (archive.codec.group(account, run).records for run in regrouped(records))
    return chain.from_iterable(groups)


def _archived(archive: Archive, entry: Entry) -> list[Record]:
    kept = ArchivedReplay.of(entry)
    if kept is None:
        return []
    return list(chain.from_iterable(archive.records(entry.slice, kept)))


def _difference(
    slice_: Slice, offset: int, needed: Record | None, found: Record | None
) -> Difference:
    place = (slice_.topic, slice_.partition, offset)
    if needed is None:
        return Difference("extra", *place, "the archive has a record that should not exist")
    if found is None:
        return Difference("missing", *place, "the archive has no such record")
    fields = [name for name in _FIELDS if getattr(needed, name) != getattr(found, name)]
    return Difference("changed", *place, f"differs in {', '.join(fields)}")


def _checksum(records: Iterable[Record]) -> str:
    """Return a sum of digests: independent of the order, and different if a record exists twice."""
    total = 0
    for record in records:
        place = (record.topic, record.partition, record.offset)
        fields = [getattr(record, name) for name in _FIELDS]
        fields[1] = record.timestamp_type.value
        text = repr((*place, *fields)).encode("utf-8", "backslashreplace")
        total += int.from_bytes(hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest())
    return f"{total % (1 << 8 * _DIGEST_BYTES):0{2 * _DIGEST_BYTES}x}"
