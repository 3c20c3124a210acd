"""Finds the files of a snapshot by file, folder, or id in the capture tool's data folder."""

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO, Final, cast

from playhead.errors import UsageError
from playhead.host import paths
from playhead.host.folder_tree import folders_below
from playhead.host.folders import open_plain
from playhead.host.own_links import opened_by_own_links
from playhead.host.packed_files import unpacked

LONGEST: Final = 256 << 20
"""Largest decompressed size in bytes of one document, entry or line; gzip can compress it to a thousandth."""
_READ_AT_ONCE: Final = 256 << 10
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_PACKED = b"\x1f\x8b"
_PACKED_OTHERWISE: Final = {
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
SECTION: Final = b"### "
"""First bytes of a Markdown recording."""
_RAW: Final = ("raw.jsonl", "raw_rr.jsonl")
_SPEEDSCALE: Final = ".speedscale/data/snapshots"
_RAW_FILE = re.compile(r"raw.*\.jsonl(\.gz)?|.*-raw\.jsonl(\.gz)?", re.ASCII)
_PAIR_FILE = re.compile(r".*\.(json|jsonl|md)(\.gz)?", re.ASCII)


class NoSnapshot(UsageError):
    """The snapshot does not exist, or cannot be read."""

    def __init__(self, name: str, *, reason: str, hint: str | None = None) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"snapshot {name!r}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one capture, in order, and its id in the capture tool."""

    id: str
    files: tuple[Path, ...]
    unread: int = 0
    """Files in its folder with an unsupported format."""

    def shown(self, index: int) -> str:
        """Return the name of a file for notes and errors."""
        return self.files[index].name

    def stamp(self) -> "list[tuple[str, State]]":
        """Return file attributes that change when a file changes, without reading it."""
        return [(str(file), state_of(file.stat())) for file in self.files]

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)


State = tuple[int, ...]


def state_of(found: os.stat_result) -> State:
    """Return what changes when a file is written or replaced; a copy can set all but the last of them."""
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns


def find_snapshot(name: str, *, home: Path | None = None) -> Snapshot:
    """Return the snapshot at a path or with an id; raises `NoSnapshot`."""
    path = paths.at_home(name).absolute()
    if path.is_file():
        return of_file(path)
    if path.is_dir():
        return _in_folder(name, path)
    tried = f"{path} does not exist"
    if _ID.fullmatch(name):
        below = (home or Path.home()) / _SPEEDSCALE
        if (below / name).is_dir():
            return _in_folder(name, below / name)
        tried += f", and there is no snapshot of this id in {below}"
    raise NoSnapshot(name, reason=tried, hint="give the path of raw.jsonl, its folder, or an id")


def find_file(name: str) -> Snapshot:
    """Return a capture of one file, for formats other than RRPairs; raises `NoSnapshot`."""
    path = paths.at_home(name).absolute()
    if not path.is_file():
        raise NoSnapshot(name, reason=f"the file {path} does not exist")
    return of_file(path)


def of_file(path: Path) -> Snapshot:
    """Return the capture of a file that the user named: it can be a link."""
    return Snapshot(_stem(path), (_real(path),))


def kept_inside(name: str, folder: Path, files: Iterable[Path]) -> list[Path]:
    """Return the files of a folder with links replaced by what they lead to; refuse what is no file there.

    Another user may have made the folder, or the archive that it came from. A link there must not make
    Playhead read a file elsewhere, and a pipe must not keep it waiting.
    """
    kept: dict[Path, None] = {}
    top = folder.resolve()
    for file in files:
        real = _real(file)
        if real != file and not real.is_relative_to(top):
            reason = f"{file} is a link out of {folder}"
            raise NoSnapshot(name, reason=reason, hint=f"name the file itself: {real}")
        if not os.path.isfile(real):  # noqa: PTH113 - it raises no error for a name that is too long
            raise NoSnapshot(name, reason=f"{file} is not a regular file")
        kept[real] = None
    return [*kept]


def _real(file: Path) -> Path:
    """Return what a link leads to; a link that leads to itself stays."""
    return Path(os.path.realpath(file)) if file.is_symlink() else file


def _stem(path: Path) -> str:
    names = {_packed(each) for each in _RAW}
    if path.name in _RAW or path.name in names:
        return path.parent.name
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.name


def _packed(name: str) -> str:
    return f"{name}.gz"


def _in_folder(name: str, folder: Path) -> Snapshot:
    raw = sorted((f for f in folder.iterdir() if _RAW_FILE.fullmatch(f.name)), key=_order)
    names = {file.name for file in raw}
    raw = [file for file in raw if file.name.removesuffix(".gz") not in names - {file.name}]
    if raw:
        return Snapshot(folder.name, tuple(kept_inside(name, folder, raw)))
    found = [*_below(folder)]
    named = [file for file in found if _PAIR_FILE.fullmatch(file.name)]
    pairs = [file for file in kept_inside(name, folder, named) if _may_be_pair(file)]
    if not pairs:
        reason = f"folder {folder} has neither raw.jsonl nor .json or .md files of pairs"
        raise NoSnapshot(name, reason=reason)
    # The name of each file is the time of its pair, independent of its folder.
    ordered = sorted(pairs, key=lambda file: (file.name, str(file)))
    return Snapshot(folder.name, tuple(ordered), len(found) - len(pairs))


def _may_be_pair(file: Path) -> bool:
    """Return whether a Markdown file is a recording."""
    if not file.name.removesuffix(".gz").endswith(".md"):
        return True
    with opened(file) as content:
        return content.read(len(SECTION)) == SECTION


def _below(folder: Path) -> Iterator[Path]:
    for at in map(Path, folders_below(str(folder))):
        with suppress(OSError):  # It cannot be listed, or another user has removed it.
            for file in at.iterdir():
                # Path.is_dir raises an error for a link into a folder that we cannot enter.
                if not file.name.startswith(".") and not os.path.isdir(file):  # noqa: PTH112
                    yield file


def _order(file: Path) -> tuple[bool, list[tuple[int, str]], str]:
    """Return a sort key: numbers in names sort as numbers; the current file has no number and is the last."""
    stem = file.name.partition(".jsonl")[0]
    parts = re.split(r"([0-9]+)", stem)
    numbered = [(int(each), "") if each.isdigit() else (-1, each) for each in parts]
    return stem == "raw", numbered, file.name


def plain(file: Path) -> FileIO:
    """Open a file of a snapshot; a link or a pipe that has taken its place since is an error."""
    with opened_by_own_links(file.parent, to_list=False) as folder:
        return FileIO(open_plain(file.name, os.O_RDONLY, folder=folder), "rb")


def is_packed(file: Path) -> bool:
    """Return whether the file is gzip, by its first bytes; raises `NoSnapshot` if it is another archive."""
    with plain(file) as content:
        start = content.read(max(map(len, _PACKED_OTHERWISE)))
    for magic, name in _PACKED_OTHERWISE.items():
        if start.startswith(magic):
            hint = "decompress it first; a file that gzip has compressed is read as it is"
            raise NoSnapshot(str(file), reason=f"it is compressed with {name}", hint=hint)
    return start.startswith(_PACKED)


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """Open a file, decompressed if it is gzip; raises `NoSnapshot` if the gzip data is damaged."""
    if not is_packed(file):
        with BufferedReader(plain(file), _READ_AT_ONCE) as content:
            yield content
        return
    with unpacked(plain(file)) as packed:
        try:
            yield cast(BinaryIO, packed)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise NoSnapshot(str(file), reason=f"its gzip data is damaged: {exc}") from exc
