"""Archives for tests: the contract's sample records, written slice by slice, and read back."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playhead.account import Account
from playhead.files.archive_index import Index
from playhead.files.errors import NotAnArchive
from playhead.files.file_names import replay_folder
from playhead.files.source import FilesSource
from playhead.files.target import FilesTarget
from playhead.files.terms import agree, kept_terms
from playhead.ledger import remaining
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.target import Writer
from playhead.testing import sample_records
from playhead.testing.target_case import terms

STARTS = {0: 0, 1: 3}
ENDS = {0: [5, 10], 1: [10]}


def commit(writer, slice_: Slice, records: Iterable[Record], **counts: int) -> None:
    """One slice, of which so many more records were read and left out."""
    kept = list(records)
    account = Account(slice_)
    account.read = len(kept) + sum(counts.values())
    for name, count in counts.items():
        setattr(account, name, count)
    writer.commit(account, [Records.of(kept)] if kept else [])


@contextmanager
def writing(
    target: FilesTarget, replay_id: str = "r", *, keeps_terms: bool = True
) -> Iterator[Writer]:
    """A writer of a replay that has begun there; without its terms afterwards, as of an older version."""
    place = target._archive()
    if kept_terms(place, replay_id) is None:
        place.make()
        agree(place, replay_id, terms())
    with target.open(replay_id) as writer:
        yield writer
    if not keeps_terms:
        for file in Path(target.root, replay_folder(replay_id)).glob("terms-*"):
            file.unlink()


def archive(
    root: str,
    format_: str = "parquet",
    *,
    replay_id: str = "one",
    ends: Mapping[int, Iterable[int]] = ENDS,
) -> None:
    """The sample records in an archive, in slices that end where it is said."""
    with writing(FilesTarget(root, format_), replay_id) as writer:
        for partition, cuts in ends.items():
            start = STARTS[partition]
            for end in cuts:
                slice_ = Slice("contract", partition, start, end)
                commit(writer, slice_, (each for each in sample_records() if each in slice_))
                start = end


def everything(root: str, format_: str = "parquet") -> list[Record]:
    """What a reader of the archive sees, past its gaps; nothing where there is no archive."""
    source = FilesSource(root, format_)
    try:
        index = Index.of(source._archive())
    except NotAnArchive:
        return []
    found = []
    with source.open() as reader:
        for place in index.places:
            held = index.bounds(place)
            if held.earliest == held.stable_end:
                continue
            whole = [Slice(*place, held.earliest, held.stable_end)]
            for slice_ in remaining(whole, index.gaps(place)):
                found += [record for run in reader.read(slice_) for record in run]
    return found


def record(offset: int, *, ms: int = 5, value: bytes | None = b"v", partition: int = 0) -> Record:
    return Record("t", partition, offset, ms, TimestampType.CREATE_TIME, None, value)


def slice_(start: int, end: int, partition: int = 0) -> Slice:
    return Slice("t", partition, start, end)


def read(root: Path, wanted: Slice) -> list[Record]:
    with FilesSource(str(root)).open() as reader:
        return [each for run in reader.read(wanted) for each in run]


def data_files(root: Path) -> list[Path]:
    return sorted(root.glob("topic=*/partition=*/[!.]*"))
