"""Finds the files of a snapshot: a file, a folder, or an id below the capture tool's data folder."""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from playhead.errors import UsageError
from playhead.host import paths

LONGEST: Final = 256 << 20
"""Bytes of one document, entry or line, unpacked; a thousandth of them can be a packed file."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
SECTION: Final = b"### "
"""What a recording in Markdown begins with."""
_RAW: Final = ("raw.jsonl", "raw_rr.jsonl")
_SPEEDSCALE: Final = ".speedscale/data/snapshots"
_RAW_FILE = re.compile(r"raw.*\.jsonl(\.gz)?|.*-raw\.jsonl(\.gz)?", re.ASCII)
_PAIR_FILE = re.compile(r".*\.(json|jsonl|md)(\.gz)?", re.ASCII)


class NoSnapshot(UsageError):
    """There is nothing at the place that was named, or nothing that could be read."""

    def __init__(self, name: str, *, reason: str, hint: str | None = None) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"snapshot {name!r}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one capture, in order, and the id that the capture tool would know it by."""

    id: str
    files: tuple[Path, ...]
    unread: int = 0
    """Files in its folder of a form that is not read."""

    def shown(self, index: int) -> str:
        """A file's name in what is told of it."""
        return self.files[index].name

    def stamp(self) -> list[tuple[str, int, int, int]]:
        """What changes when a file does, found without reading one."""
        states = [(file, file.stat()) for file in self.files]
        return [(str(f), s.st_size, s.st_mtime_ns, s.st_ino) for f, s in states]

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)


def find_snapshot(name: str, *, home: Path | None = None) -> Snapshot:
    """The snapshot at a path, or of an id."""
    path = paths.at_home(name).absolute()
    if path.is_file():
        return Snapshot(_stem(path), (path,))
    if path.is_dir():
        return _in_folder(name, path)
    tried = f"there is no file or folder {path}"
    if _ID.fullmatch(name):
        below = (home or Path.home()) / _SPEEDSCALE
        if (below / name).is_dir():
            return _in_folder(name, below / name)
        tried += f", and no snapshot of this id in {below}"
    raise NoSnapshot(name, reason=tried, hint="name raw.jsonl, its folder, or an id")


def find_file(name: str) -> Snapshot:
    """One file, as other formats than RRPairs are."""
    path = paths.at_home(name).absolute()
    if not path.is_file():
        raise NoSnapshot(name, reason=f"there is no file {path}")
    return Snapshot(_stem(path), (path,))


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
        return Snapshot(folder.name, tuple(raw))
    found = [*_below(folder)]
    pairs = [file for file in found if _PAIR_FILE.fullmatch(file.name) and _may_be_pair(file)]
    if not pairs:
        reason = f"folder {folder} has neither raw.jsonl nor .json or .md files of pairs"
        raise NoSnapshot(name, reason=reason)
    # Each is named by the time of its pair, whatever host's folder it is in.
    ordered = sorted(pairs, key=lambda file: (file.name, str(file)))
    return Snapshot(folder.name, tuple(ordered), len(found) - len(pairs))


def _may_be_pair(file: Path) -> bool:
    """Return whether a Markdown file is a recording, and not somebody's notes."""
    if not file.name.removesuffix(".gz").endswith(".md"):
        return True
    with opened(file) as content:
        return content.read(len(SECTION)) == SECTION


def _below(folder: Path) -> Iterator[Path]:
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        yield from (Path(at, each) for each in files if not each.startswith("."))


def _order(file: Path) -> tuple[bool, list[tuple[int, str]], str]:
    """By the numbers in names as numbers; the file that is still written to has none, and is the last."""
    stem = file.name.partition(".jsonl")[0]
    parts = re.split(r"([0-9]+)", stem)
    numbered = [(int(each), "") if each.isdigit() else (-1, each) for each in parts]
    return stem == "raw", numbered, file.name


def is_packed(file: Path) -> bool:
    """By what it holds, and not by its name."""
    with file.open("rb") as opened:
        return opened.read(2) == b"\x1f\x8b"


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked; a packed file that is broken anywhere is refused."""
    if not is_packed(file):
        with file.open("rb") as plain:
            yield plain
        return
    with gzip.open(file, "rb") as packed:
        try:
            yield cast(BinaryIO, packed)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise NoSnapshot(str(file), reason=f"its gzip is broken: {exc}") from exc
