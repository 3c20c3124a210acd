"""Files as a target: an archive from which a topic can be restored byte for byte."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from playhead.errors import BadValue
from playhead.files import file_names
from playhead.files.archive import Archive, archive_of, checked_format, settled
from playhead.files.codec import shown_times
from playhead.files.file_names import Format
from playhead.files.formats.jsonl import bytes_as_json, headers_as_json
from playhead.files.formats.parquet import ParquetCodec
from playhead.files.inspect import archive_made, origins_before, surveyed
from playhead.files.terms import agree, kept_terms
from playhead.files.typed_columns import shown_fields
from playhead.files.writer import FilesWriter
from playhead.ledger import Entry
from playhead.note import Note
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.target import Inspection, InspectRequest, Target, Writer
from playhead.terms import Terms


@dataclass(frozen=True)
class FilesTarget(Target):
    """An archive in a local folder or in S3 (`s3://bucket/prefix`), as Parquet, JSON Lines or CSV.

    One data file for each slice, `topic=T/partition=P/FROM-TO.parquet`, and one ledger file,
    `_playhead/replay=ID/topic=T/partition=P/FROM-TO.json`, with the entry and the data file's SHA-256.

    - Ordering: a file holds its slice's records in the order of their offsets; slices may be
      committed in any order.
    - Idempotence: names and bytes depend on the records alone, so that writing a slice again
      replaces a file by itself. The same slice from two replays leaves one copy; when the second
      has other records there, it is refused. Slices of two replays that overlap without being the same
      leave offsets in two files: `FilesSource` reads each offset once, other tools do not.
    - Delivery: exactly once. A file is written aside, made durable, and published by one rename, or
      by the completion of one upload; the ledger file follows, and with it the slice is committed.
      What has no ledger entry is not read, and is replaced by the resume. On a local disk two
      runs of one replay exclude each other by a lock. S3 has none, and rests on names and bytes
      being the same in both, as they are when both cut the same slices; a run that begins while
      another run of its replay is active may cut others, and leave offsets in two files. The
      proof tells of them.

    S3 is found, and let in, as the AWS command line does: AWS_ENDPOINT_URL, AWS_REGION,
    AWS_ACCESS_KEY_ID and so on, in every process that opens the archive; AWS_NO_SIGN_REQUEST=1 is
    for public buckets. A description holds no secret.
    """

    root: str
    format: Format = "parquet"
    typed: bool = False
    """Whether Parquet gets the fields of JSON values as columns too."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", settled(self.root))
        object.__setattr__(self, "format", checked_format(self.format))
        if self.typed and self.format != "parquet":
            needed = "parquet, for typed columns"
            raise BadValue("format", found=self.format, needed=needed, where="an archive")

    @property
    def is_ordered(self) -> bool:
        return False

    def identity(self) -> str:
        return self._archive().store.identity

    def inspect(self, look: InspectRequest, /) -> Inspection:
        return surveyed(self._archive(), look, typed=self.typed)

    def creates(self, needs: Mapping[str, Any], /) -> tuple[str, ...]:
        return archive_made(self._archive(), needs)

    def preview(self, records: Records, /) -> Sequence[Mapping[str, Any]]:
        times = shown_times(records.timestamps_ms)
        rows = [_row(record, shown) for record, shown in zip(records, times, strict=True)]
        if self.typed:
            rows = [
                row | shown_fields(value) for row, value in zip(rows, records.readable, strict=True)
            ]
        return rows

    def prepare(self, replay_id: str, inspection: Inspection, terms: Terms, /) -> Sequence[Note]:
        archive = self._archive()
        archive.make()
        if kept_terms(archive, replay_id) is None:
            # Another replay may have come in between since the inspection.
            origins_before(archive, terms.topics, replay_id).refuse_another(terms.topics)
        notes = agree(archive, replay_id, terms)
        archive.write_about(replay_id, inspection.needs.get("topics", {}))
        return notes

    def terms(self, replay_id: str, /) -> Terms | None:
        return kept_terms(self._archive(), replay_id)

    def hold(self, replay_id: str, /) -> AbstractContextManager[None]:
        """Allow one run at a time by a lock on a local disk; S3 has no locks and needs none (see Delivery)."""
        return self._archive().store.held(replay_id, file_names.replay_folder(replay_id))

    def replays(self) -> list[str]:
        """Return the replays that have a ledger here."""
        return self._archive().replays()

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        archive, folder = self._archive(), file_names.replay_folder(replay_id)
        found = [each.entry for each in archive.committed(folder)]
        slices = (each.slice for each in found)
        places = {file_names.place_folder(each.topic, each.partition) for each in slices}
        # What is counted, and noted in the journal, must also be there after the power has failed.
        archive.store.settle([folder, *sorted(places)])
        return found

    def lost_files(self, entries: Sequence[Entry], /) -> Mapping[Slice, str]:
        return self._archive().lost_files(entries)

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[Writer]:
        archive = self._archive()
        archive.need()
        if self.typed:
            topics = archive.about(replay_id)
            columns = {topic: known.get("columns", {}) for topic, known in topics.items()}
            archive = replace(archive, codec=ParquetCodec(columns))
        yield FilesWriter(archive, replay_id)

    def _archive(self) -> Archive:
        return archive_of(self.root, self.format)


def _row(record: Record, shown: str | None) -> dict[str, Any]:
    return {
        "folder": file_names.place_folder(record.topic, record.partition),
        "offset": record.offset,
        "timestamp": shown,
        "key": json.loads(bytes_as_json(record.key)),
        "value": json.loads(bytes_as_json(record.value)),
        "headers": json.loads(headers_as_json(record.headers)),
    }
