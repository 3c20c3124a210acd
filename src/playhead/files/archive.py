"""One archive: data files under their names, ledgers beside them, and the rule that each must match."""

import hashlib
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import lt
from pathlib import Path
from typing import Any, get_args

from playhead.errors import BadValue
from playhead.files import file_names
from playhead.files.codec import Codec
from playhead.files.errors import Damaged, NotAnArchive, OtherFormat
from playhead.files.file_names import EntryName, Format
from playhead.files.formats.csv_format import CsvCodec
from playhead.files.formats.jsonl import JsonCodec
from playhead.files.formats.parquet import ParquetCodec
from playhead.files.stores.local import LocalStore
from playhead.files.stores.s3 import S3Store
from playhead.files.stores.store import MOST_BYTES, Store, read_each
from playhead.grammar.field_types import need_kinds
from playhead.host import paths
from playhead.host.faults import abort_point
from playhead.host.own_links import real_path
from playhead.ledger import UNREADABLE, Entry
from playhead.record import Slice, TimestampType
from playhead.records import Records

_S3 = ("s3://", "s3a://")
_FILE = "file://"
_BUCKET = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?", re.ASCII)

_VERSION = 1
_TYPES = {each.value for each in TimestampType}
_ABOUT = {"partitions": int, "sets_log_append_time": bool, "is_compacted": bool}
_COLUMN_TYPES = {"int64", "double", "bool", "string", "json"}
# A list of them is made; a cluster of Kafka has fewer, of all topics.
MOST_PARTITIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchivedReplay:
    """The details of an entry about its data file; empty for a slice without records."""

    size: int
    sha256: str
    records: int
    first_ms: int
    last_ms: int

    def as_details(self, path: str) -> dict[str, Any]:
        return {"file": path} | {name: getattr(self, name) for name in self.__slots__}

    def unlike(self, size: int | None) -> str | None:
        """Return the reason why a file of this size is not the written one; the size is None without a file."""
        if size is None:
            return "the file is gone"
        is_whole = size == self.size
        return None if is_whole else f"it has {size} bytes, but was written with {self.size}"

    @classmethod
    def of(cls, entry: Entry) -> "ArchivedReplay | None":
        details = entry.details
        if not details:
            return None
        kept = cls(*(details[name] for name in cls.__slots__))
        need_kinds(kept, "details")
        return kept


@dataclass(frozen=True, slots=True)
class ArchivedSlice:
    """A ledger entry with its replay."""

    replay_id: str
    entry: Entry
    kept: ArchivedReplay | None

    @property
    def slice(self) -> Slice:
        return self.entry.slice

    @property
    def is_complete(self) -> bool:
        """Whether every record of the slice in the log was written."""
        return self.entry.read == self.entry.written


@dataclass(frozen=True, slots=True)
class Archive:
    """An open archive; made where it is needed, and never sent to another process."""

    store: Store
    codec: Codec

    @property
    def format(self) -> Format:
        return self.codec.name

    def is_there(self) -> bool:
        """Return whether the folder is an archive already; refuse one of another format."""
        about = self._document(file_names.ABOUT)
        if about is not None and about["format"] != self.format:
            raise OtherFormat(self.store.identity, found=about["format"], needed=self.format)
        return about is not None

    def make(self) -> None:
        """Mark the folder as an archive; repeating it is harmless."""
        if not self.is_there():
            abort_point("files.before_archive")
            self._publish(file_names.ABOUT, {"format": self.format})
            abort_point("files.archive_made")

    def need(self) -> None:
        """Refuse a folder that is not an archive, or has another format."""
        if not self.is_there():
            raise NotAnArchive(self.store.identity, reason=f"it has no {file_names.ABOUT}")

    def write_about(self, replay_id: str, topics: Mapping[str, Any]) -> None:
        """Store what a replay knows about its topics."""
        abort_point("files.before_about")
        self._publish(file_names.about_path(replay_id), {"topics": dict(topics)})
        abort_point("files.about_written")

    def about(self, replay_id: str) -> Mapping[str, Any]:
        """Return what the replay knew about its topics; empty if it was never prepared."""
        return self._about(file_names.about_path(replay_id)) or {}

    def abouts(self) -> list[Mapping[str, Any]]:
        """Return what each replay knew about its topics, sorted by replay id."""
        paths = sorted(filter(file_names.is_about, self.store.files(file_names.LEDGER)))
        return [topics for topics in map(self._about, paths) if topics is not None]

    def entry_names(self, folder: str = file_names.LEDGER) -> list[EntryName]:
        """Return the names of ledger files below a folder, without reading them."""
        parsed = map(file_names.entry_name, self.store.files(folder))
        return [each for each in parsed if each is not None]

    def committed(self, folder: str = file_names.LEDGER) -> list[ArchivedSlice]:
        """Return the entries below a ledger folder, in slice order."""
        return self.read_entries(self.entry_names(folder))

    def read_entries(self, found: list[EntryName]) -> list[ArchivedSlice]:
        """Read these ledger files, in slice order."""
        texts = read_each(self.store, [each.path for each in found])
        pairs = zip(found, texts, strict=True)
        entries = [self._entry(name, text) for name, text in pairs if text is not None]
        return sorted(entries, key=lambda each: (each.slice, each.replay_id))

    def others(self, replay_id: str, slice_: Slice) -> list[ArchivedSlice]:
        """Return what other replays have committed at the same offsets."""
        ids = [each for each in self.replays() if each != replay_id]
        return self.read_entries(_entries_of(ids, slice_))

    def strays(self, slice_: Slice) -> list[str]:
        """Return data files that overlap the slice, and that no ledger lists.

        Dead writers left them; where writers cannot exclude each other, one may still be active.
        """
        folder = file_names.place_folder(slice_.topic, slice_.partition)
        strays = []
        for path in self.store.files(folder):
            other = file_names.data_slice(path, self.format)
            if other is None or not other.overlaps(slice_):
                continue
            if not self.read_entries(_entries_of(self.replays(), other)):
                strays.append(path)
        return strays

    def lost_files(self, entries: Iterable[Entry]) -> dict[Slice, str]:
        """Return the slices whose file is missing or has another size, with its name and the reason.

        Only folders are listed; no file is read.
        """
        sizes: dict[str, Mapping[str, int]] = {}
        found: dict[Slice, str] = {}
        for entry in entries:
            slice_, kept = entry.slice, ArchivedReplay.of(entry)
            if kept is None:
                continue
            folder = file_names.place_folder(slice_.topic, slice_.partition)
            if folder not in sizes:
                sizes[folder] = self.store.sizes(folder)
            path = file_names.data_path(slice_, self.format)
            if reason := kept.unlike(sizes[folder].get(path)):
                found[slice_] = f"{path}: {reason}"
        return found

    def data(self, slice_: Slice, kept: ArchivedReplay) -> bytes:
        """Return the bytes of a slice's file, which must match the ledger."""
        path = file_names.data_path(slice_, self.format)
        data = self.store.read(path, MOST_BYTES)
        reason = kept.unlike(None if data is None else len(data))
        if data is None or reason is not None:
            raise Damaged(self._where(path), reason=reason or "")
        if hashlib.sha256(data).hexdigest() != kept.sha256:
            reason = "its SHA-256 differs from the written file's"
            raise Damaged(self._where(path), reason=reason)
        return data

    def records(self, slice_: Slice, kept: ArchivedReplay) -> Iterator[Records]:
        """Return the records of a slice's file."""
        data = self.data(slice_, kept)
        first, count = slice_.from_offset, 0
        try:
            for run in map(_whole, self.codec.decode(data, slice_)):
                first, count = _behind(run.offsets, first, slice_), count + len(run)
                yield run
            if count != kept.records:
                raise ValueError(f"it has {count:,} records, and was written with {kept.records:,}")
        except (
            ValueError,
            KeyError,
            TypeError,
            OverflowError,
            OSError,
            RecursionError,
        ) as error:
            path = self._where(file_names.data_path(slice_, self.format))
            raise Damaged(
                path, reason=f"it is not a {self.format} file of ours: {error}"
            ) from error

    def replays(self) -> list[str]:
        found = map(file_names.replay_of, self.store.folders(file_names.LEDGER))
        return sorted(each for each in found if each is not None)

    def _entry(self, name: EntryName, text: bytes) -> ArchivedSlice:
        try:
            entry = Entry.from_json(text)
            kept = ArchivedReplay.of(entry)
        except UNREADABLE as error:
            raise Damaged(
                self._where(name.path), reason=f"it is not a ledger entry: {error}"
            ) from error
        if entry.slice != name.slice:
            raise Damaged(self._where(name.path), reason=f"it is the entry of {entry.slice}")
        in_file = kept.records if kept is not None else 0
        if in_file != entry.written:
            reason = f"{entry.written:,} records were written, and its file has {in_file:,}"
            raise Damaged(self._where(name.path), reason=reason)
        return ArchivedSlice(name.replay_id, entry, kept)

    def _about(self, path: str) -> Mapping[str, Any] | None:
        document = self._document(path)
        if document is None:
            return None
        topics: Mapping[str, Any] = document.get("topics")
        if not (isinstance(topics, Mapping) and all(map(_is_about, topics.values()))):
            raise Damaged(self._where(path), reason="it does not say what a topic was like")
        return topics

    def _document(self, path: str) -> Any:
        text = self.store.read(path)
        if text is None:
            return None
        try:
            document = json.loads(text)
            version = document["version"]
        except UNREADABLE as error:
            raise Damaged(
                self._where(path), reason="it is not the file that was written there"
            ) from error
        if version != _VERSION:
            reason = f"its version is {version!r}; this Playhead knows {_VERSION}"
            raise NotAnArchive(self._where(path), reason=reason)
        return document

    def _publish(self, path: str, document: Mapping[str, Any]) -> None:
        text = json.dumps({"version": _VERSION} | dict(document), sort_keys=True)
        with self.store.alone(path.rpartition("/")[0]):
            self.store.publish(path, [text.encode()])

    def _where(self, path: str) -> str:
        return f"{self.store.identity}/{path}"


def _is_about(held: Any) -> bool:
    """Return whether it is what a replay knows about a topic; other users may have written it."""
    if not isinstance(held, Mapping) or any(type(held.get(n)) is not k for n, k in _ABOUT.items()):
        return False
    columns = held.get("columns", {})
    are_columns = isinstance(columns, Mapping) and {*map(str, columns.values())} <= _COLUMN_TYPES
    return are_columns and 0 <= held["partitions"] <= MOST_PARTITIONS


def _whole(records: Records) -> Records:
    """Return the records if their numbers are possible in a record."""
    for column in (records.offsets, records.timestamps_ms):
        array("q", column)
        if {*map(type, column)} - {int}:
            raise TypeError("an offset or a time is not a number")
    if unknown := {*records.timestamp_types} - _TYPES:
        raise ValueError(f"found types of timestamps {unknown}")
    return records


def _behind(offsets: Sequence[int], first: int, slice_: Slice) -> int:
    """Return the offset behind these; raise ValueError if they are not all of the slice, and in order."""
    if not offsets:
        return first
    is_inside = first <= offsets[0] and offsets[-1] < slice_.to_offset
    if not (is_inside and all(map(lt, offsets, offsets[1:]))):
        raise ValueError(f"its offsets are not in order, or not all of {slice_}")
    return offsets[-1] + 1


def _entries_of(replay_ids: Iterable[str], slice_: Slice) -> list[EntryName]:
    return [EntryName(each, slice_, file_names.entry_path(each, slice_)) for each in replay_ids]


def settled(root: str) -> str:
    """Return the root in a form that every process understands: absolute, or an s3:// address."""
    for scheme in _S3:
        if root.startswith(scheme):
            bucket, _, prefix = root[len(scheme) :].partition("/")
            # Doubled slashes name a different object in S3, but the same folder in a file system.
            parts = [*filter(None, prefix.split("/"))]
            # The client library would take `..` for another bucket, and `?` for a query.
            if not _BUCKET.fullmatch(bucket) or ".." in bucket:
                needed = "s3://BUCKET/PREFIX, a bucket of letters, digits, '.', '_' and '-'"
                raise BadValue("root", found=root, needed=needed, where="an archive")
            if {".", ".."} & {*parts} or "\0" in prefix:
                needed = "a prefix without the parts . and .., and without NUL"
                raise BadValue("root", found=root, needed=needed, where="an archive")
            return "/".join(["s3:/", bucket, *parts])
    local = root.removeprefix(_FILE)
    if not local or "://" in local or "\0" in local:
        raise BadValue(
            "root", found=root, needed="a folder, or s3://BUCKET/PREFIX", where="an archive"
        )
    return _resolved(paths.at_home(local))


def _resolved(folder: Path) -> str:
    """Return the folder's whole path, with links resolved only if they are ours or root's.

    Another user's link stays in the path, so that the store sees it, and refuses to write where it leads.
    """
    # A loop of links is an error of the store, too.
    with suppress(OSError, RuntimeError):
        return str(real_path(folder.absolute()))
    return str(folder.absolute())


def checked_format(format_: str) -> Format:
    """Check the format's name."""
    formats: tuple[Format, ...] = get_args(Format)
    for each in formats:
        if each == format_:
            return each
    raise BadValue("format", found=format_, needed=" or ".join(formats), where="an archive")


def archive_of(root: str, format_: Format) -> Archive:
    """Return the archive at such a root."""
    store = S3Store.at(root) if root.startswith("s3://") else LocalStore(Path(root))
    codecs: dict[Format, Codec] = {
        "parquet": ParquetCodec(),
        "json": JsonCodec(),
        "csv": CsvCodec(),
    }
    return Archive(store, codecs[format_])
