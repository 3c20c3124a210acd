"""The writer of an archive: one data file and then one ledger file for each slice."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from playhead.account import Account
from playhead.files import file_names
from playhead.files.archive import Archive, ArchivedReplay
from playhead.files.codec import Codec, Group, regrouped
from playhead.files.compare import compared
from playhead.files.errors import OtherRecords
from playhead.files.stores.store import Piece
from playhead.files.terms import need_terms
from playhead.host.faults import abort_point
from playhead.json_objects import REPEATED
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.records import Records
from playhead.target import AlreadyCommitted, SliceComparison, Writer


@dataclass(frozen=True, slots=True)
class File:
    """A data file to write, and its description in the ledger."""

    pieces: list[Piece]
    kept: ArchivedReplay
    repeated: int
    """How many records have the field of a typed column twice."""


class FilesWriter(Writer):
    """Writes the slices of one replay to an archive."""

    def __init__(self, archive: Archive, replay_id: str) -> None:
        self._archive, self._replay_id = archive, replay_id

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        slice_ = account.slice
        # Check once before any work, and once when no other writer can interfere.
        self._refuse_overlap(slice_)
        file = encoded(self._archive, account, records)
        ledger = file_names.entries_folder(self._replay_id, *slice_.place)
        need_terms(self._archive, self._replay_id)
        with self._archive.store.alone(file_names.place_folder(*slice_.place), ledger):
            self._refuse_overlap(slice_)
            self._publish(account, file)

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison:
        return compared(self._archive, entry, records)

    def _publish(self, account: Account, file: File | None) -> None:
        slice_, store = account.slice, self._archive.store
        path = file_names.data_path(slice_, self._archive.format)
        kept = file and self._kept_by_others(slice_, file)
        entry = account.close(_details(path, kept, file.repeated) if file and kept else None)
        if store.excludes:
            for stray in self._archive.strays(slice_):
                abort_point("files.before_stray")
                store.remove(stray)
                abort_point("files.stray_removed")
        abort_point("files.before_data")
        if file is not None and kept == file.kept:
            store.publish(path, file.pieces, aside=lambda: abort_point("files.data_aside"))
        abort_point("files.data_published")
        store.publish(
            file_names.entry_path(self._replay_id, slice_),
            [entry.as_json().encode()],
            aside=lambda: abort_point("files.ledger_aside"),
        )
        abort_point("files.ledger_published")

    def _refuse_overlap(self, slice_: Slice) -> None:
        folder = file_names.entries_folder(self._replay_id, slice_.topic, slice_.partition)
        for name in self._archive.entry_names(folder):
            if name.slice.overlaps(slice_):
                raise AlreadyCommitted(self._replay_id, found=slice_, committed=name.slice)

    def _kept_by_others(self, slice_: Slice, file: File) -> ArchivedReplay:
        """Describe our file, or another replay's file with the same records."""
        for other in self._archive.others(self._replay_id, slice_):
            if other.kept is None or other.kept.sha256 == file.kept.sha256:
                continue
            # Other bytes may hold the same records, written by another version of the library.
            ours = self._archive.codec.decode(b"".join(file.pieces), slice_)
            theirs = self._archive.codec.decode(self._archive.data(slice_, other.kept), slice_)
            if list(regrouped(ours)) == list(regrouped(theirs)):
                return other.kept
            path = file_names.data_path(slice_, self._archive.format)
            raise OtherRecords(path, replay_id=self._replay_id, other=other.replay_id)
        return file.kept


def _details(path: str, kept: ArchivedReplay, repeated: int) -> dict[str, Any]:
    return kept.as_details(path) | ({REPEATED: repeated} if repeated else {})


def encoded(archive: Archive, account: Account, records: Iterable[Records]) -> File | None:
    """Return the file of these records; None if there is nothing to write."""
    groups: list[tuple[int, int, int, int]] = []
    pieces = archive.codec.encode(_groups(archive.codec, account, records, groups))
    if not groups:
        return None
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    counts, firsts, lasts, repeated = zip(*groups, strict=True)
    kept = ArchivedReplay(
        sum(map(len, pieces)), digest.hexdigest(), sum(counts), min(firsts), max(lasts)
    )
    return File(pieces, kept, sum(repeated))


def _groups(
    codec: Codec,
    account: Account,
    records: Iterable[Records],
    noted: list[tuple[int, int, int, int]],
) -> Iterator[Group]:
    """Yield groups of writable records.

    Note of each the count, the smallest and greatest time, and how many have a field twice.
    """
    for run in regrouped(records):
        group = codec.group(account, run)
        found = group.records.timestamps_ms
        if found:
            noted.append((len(found), min(found), max(found), group.repeated))
            yield group
