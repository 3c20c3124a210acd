"""Builds the catalog of a capture, large files in parallel parts, and caches it for later commands."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from io import BufferedReader, BytesIO
from pathlib import Path
from threading import Lock
from typing import Final

import playhead
from playhead.errors import PlayheadError
from playhead.host import private_files
from playhead.host.clock import SystemClock
from playhead.host.collector import seldom_collecting
from playhead.host.paths import cache_dir
from playhead.host.runtimes import command_of
from playhead.traffic.catalog import Catalog
from playhead.traffic.filter.parse import TrafficFilter
from playhead.traffic.formats import rrpair
from playhead.traffic.formats.rrpair import Part
from playhead.traffic.index import TrafficIndex
from playhead.traffic.reader import Parse, contents
from playhead.traffic.snapshot import Snapshot, is_packed, plain
from playhead.traffic.unchanged import CaptureChanged, Unchanged, fingerprint

_PART_BYTES: Final = 32 << 20
# Part size of a large file: a few parts per core end at about the same time, and need few processes.
_PARTS_A_CORE: Final = 3
_SOUGHT_BYTES: Final = 64 << 20
_MOST_KEPT: Final = 32
_MOST_REMEMBERED: Final = 4
_WORKER_WITHIN_S: Final = 3_600
_remembered: dict[str, TrafficIndex] = {}
_lock = Lock()

Scan = Callable[[Snapshot], Catalog]


class ScanFailed(PlayheadError):
    """A process that scanned a part of a capture failed."""


def index_of(
    snapshot: Snapshot, kind: str, filter_: str | None, scan: Scan | None, parse: Parse
) -> TrafficIndex:
    """Return the index from memory, from the user's cache, or by a scan; `scan` is None for RRPairs."""
    stamp = snapshot.stamp()
    asked = json.dumps([_code(), kind, filter_, snapshot.id, stamp])
    key = hashlib.sha256(asked.encode()).hexdigest()
    with _lock:
        known = _remembered.get(key)
        if known is None:
            catalog = _kept(key)
            if catalog is None:
                catalog = _made(snapshot, kind, filter_, scan)
                if snapshot.stamp() != stamp:
                    raise CaptureChanged(snapshot.id)
                _keep(key, catalog)
            unchanged = Unchanged(snapshot, stamp, catalog.identity)
            known = TrafficIndex.of(
                catalog, partial(contents, unchanged, parse, catalog), unchanged
            )
        while len(_remembered) >= _MOST_REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = known
    return known


def _made(snapshot: Snapshot, kind: str, filter_: str | None, scan: Scan | None) -> Catalog:
    with ThreadPoolExecutor(1, thread_name_prefix="fingerprint") as beside:
        print_ = beside.submit(fingerprint, snapshot)
        with seldom_collecting():
            catalog = scan(snapshot) if scan is not None else _of_rrpairs(snapshot, filter_)
        catalog.identity = f"{kind}:{print_.result()}"
    return catalog


# --- in parts


def _of_rrpairs(snapshot: Snapshot, filter_: str | None) -> Catalog:
    parts = [*_parts(snapshot)]
    workers = os.cpu_count() or 1
    if len(parts) <= len(snapshot.files) or workers == 1:
        read = TrafficFilter.parse(filter_, snapshot=snapshot.id) if filter_ else None
        found: Iterator[Catalog] = (
            rrpair.scan(snapshot, Part(index, 0, None), read)
            for index in range(len(snapshot.files))
        )
        return _merged([Part(index, 0, None) for index in range(len(snapshot.files))], found)
    with ThreadPoolExecutor(workers, thread_name_prefix="scan") as pool:
        return _merged(parts, pool.map(partial(_elsewhere, snapshot, filter_), parts))


def _merged(parts: Sequence[Part], found: Iterator[Catalog]) -> Catalog:
    catalog, lines = Catalog(), 0
    for part, each in zip(parts, found, strict=True):
        lines = lines if part.start else 0
        catalog.merge(each, lines)
        lines += each.counts.get("lines", 0)
    return catalog


def _parts(snapshot: Snapshot) -> Iterator[Part]:
    """Yield the parts; a large file has several, which begin at the start of a document."""
    for index, file in enumerate(snapshot.files):
        size = file.stat().st_size
        if size < 2 * _PART_BYTES or is_packed(file) or file.suffix == ".md":
            yield Part(index, 0, None)
            continue
        start, step = 0, max(_PART_BYTES, size // (_PARTS_A_CORE * (os.cpu_count() or 1)))
        for target in range(step, size - step // 2, step):
            end = _document_after(file, max(target, start))
            if end is not None and end > start:
                yield Part(index, start, end)
                start = end
        yield Part(index, start, None)


def _document_after(file: Path, at: int) -> int | None:
    """Return the start of the next line that opens an object; lines inside a pretty-printed object are indented."""
    with BufferedReader(plain(file)) as opened:
        opened.seek(at)
        end = at + len(opened.readline(_SOUGHT_BYTES))
        while end < at + _SOUGHT_BYTES:
            line = opened.readline(_SOUGHT_BYTES)
            if not line or line.startswith(b"{"):
                return end if line else None
            end += len(line)
    return None


def _elsewhere(snapshot: Snapshot, filter_: str | None, part: Part) -> Catalog:
    asked = {
        "id": snapshot.id,
        "files": [str(file) for file in snapshot.files],
        "filter": filter_,
        "part": [part.file, part.start, part.end],
    }
    with subprocess.Popen(
        command_of("playhead.traffic.scan_worker"),
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as worker:
        try:
            answer, said = worker.communicate(json.dumps(asked).encode(), _WORKER_WITHIN_S)
        except BaseException:
            worker.kill()
            raise
    if worker.returncode:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise ScanFailed(f"scanning a part of {snapshot.shown(part.file)} failed: {last}")
    return Catalog.read(BytesIO(answer))


def _environment() -> Mapping[str, str]:
    """Return the environment in which a child process imports this package."""
    ours = str(Path(playhead.__file__).parents[1])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{ours}{os.pathsep}{path}" if path else ours}


# --- cache


@lru_cache(maxsize=1)
def _code() -> list[object]:
    """Return values that identify the code, so that a cached catalog is read only by the code that made it."""
    package = Path(playhead.__file__).parent
    ours = sorted(
        each for name in ("traffic", "querylog") for each in (package / name).rglob("*.py")
    )
    states = [file.stat() for file in ours]
    return [playhead.__version__, [(each.st_size, each.st_mtime_ns) for each in states]]


def _folder() -> Path:
    return cache_dir() / "traffic"


def _kept(key: str) -> Catalog | None:
    try:
        with (_folder() / key).open("rb") as file:
            return Catalog.read(file)
    except (OSError, ValueError, EOFError, KeyError, TypeError):
        return None


def _keep(key: str, catalog: Catalog) -> None:
    """Cache the catalog for tasks in other processes; if this fails, they build their own."""
    folder = _folder()
    with suppress(OSError):
        private_files.folder(folder)
        aside = folder / f".{key}.{os.getpid()}.{SystemClock().now_ns()}"
        with private_files.opened(aside, "wb") as file:
            catalog.write(file)
        aside.replace(folder / key)
        held = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        for old in held[:-_MOST_KEPT]:
            old.unlink(missing_ok=True)
