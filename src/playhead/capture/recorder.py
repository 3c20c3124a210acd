"""The recorder process: reads captured pairs from a pipe until it closes, and writes the snapshot.

It is a separate process because decoding needs a core that the forwarding thread must not wait for. It
reports its counts on standard output, one JSON document per line.
"""

import json
import os
import select
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from playhead.capture.decode_records import MEMORY_BYTES, Document
from playhead.capture.pair_document import Captured, Connection, Describer, partitions_of
from playhead.capture.pipe_format import Ended, Passed, Unpacker
from playhead.capture.protocol import name_of, read_head
from playhead.capture.redaction import Redaction, parse_rule, withhold
from playhead.capture.snapshot_writer import Rotation, Snapshot, SnapshotNotWritten
from playhead.unpacking import Malformed

_PIECE: Final = 64 << 10
_PART_BYTES: Final = 1 << 20
# What a number, or the place of a value in a list, counts.
_SMALL: Final = 16
_dumps: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":")
).encode

_READ_BYTES: Final = 1 << 20
_TELL_EVERY_S: Final = 0.25
_GATHER_S: Final = 0.005
_NICENESS: Final = 5
_MOST_REASONS: Final = 100
_LARGE_BYTES: Final = 1 << 20
_UNNAMED: Final = (
    "records of a topic that has only an ID were left out, because no response with its name was captured "
    "before, and --topics may or may not match it"
)


@dataclass(slots=True)
class RecorderConfig:
    """The settings of the recorder; passed as JSON on its command line."""

    folder: str
    rotate_bytes: int | None = None
    rotate_seconds: float | None = None
    topics: list[str] = field(default_factory=list)
    """Patterns of topic names; empty means all topics."""
    redact: list[str] = field(default_factory=list)
    memory_bytes: int = MEMORY_BYTES
    """--max-memory; limits to how much records may decompress."""


@dataclass(slots=True)
class RecorderStats:
    """The counts so far."""

    pairs: int = 0
    left_out: int = 0
    """Pairs about topics that do not match --topics."""
    unreadable: int = 0
    """Pairs whose header cannot be decoded, or with --topics whose topics are not known; they are not written."""
    records: int = 0
    written_bytes: int = 0
    files: int = 0
    redacted_fields: int = 0
    redacted_values: int = 0
    undecodable: dict[str, int] = field(default_factory=dict)
    """Pairs that could not be decoded, by API, version and reason; they are recorded as bytes."""
    error: str | None = None

    def as_line(self) -> bytes:
        known = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(known).encode() + b"\n"


class Recorder:
    """Decodes pairs, redacts them and writes them to the snapshot."""

    def __init__(self, order: RecorderConfig, snapshot: Snapshot) -> None:
        self._topics = order.topics
        self._redaction = Redaction([parse_rule(text) for text in order.redact])
        self._snapshot = snapshot
        self._describer = Describer(order.memory_bytes)
        self._reasons: Counter[str] = Counter()
        self._on_their_way: deque[int] = deque()
        """Number of records of each line that is not written yet."""
        self.done = RecorderStats()

    def take(self, found: Passed) -> None:
        if isinstance(found, Connection):
            self._describer.connections[found.number] = found
        elif isinstance(found, Ended):
            self._describer.connections.pop(found.connection, None)
        else:
            self._write(found)

    def _write(self, found: Captured) -> None:
        try:
            document, reasons, content_bytes = self._describer.describe(found)
        except Malformed as exc:
            self._count(found, str(exc))
            self.done.unreadable += 1
            return
        for reason in reasons:
            self._count(found, reason)
        if self._topics and not self._keep_wanted(found, document):
            return
        self._redaction.apply(document)
        if content_bytes > _LARGE_BYTES:
            self._snapshot.write_in_parts(lambda: in_parts(document))
        else:
            self._snapshot.write(as_line(document))
        self._on_their_way.append(_records_in(document))

    def told(self) -> RecorderStats:
        done, redaction = self.done, self._redaction
        while done.pairs < self._snapshot.written_lines:
            done.pairs += 1
            done.records += self._on_their_way.popleft()
        done.written_bytes, done.files = self._snapshot.written_bytes, self._snapshot.files
        done.redacted_fields, done.redacted_values = redaction.fields, redaction.wholes
        done.undecodable = dict(self._reasons)
        return done

    def _count(self, found: Captured, reason: str) -> None:
        api, version, _ = read_head(found.request[4:])
        said = f"{name_of(api)} v{version}: {reason}"
        if said not in self._reasons and len(self._reasons) >= _MOST_REASONS:
            said = f"{name_of(api)} v{version}: other reasons"
        self._reasons[said] += 1

    def _keep_wanted(self, found: Captured, document: Document) -> bool:
        """Remove partitions of other topics, and bytes that may be theirs; returns False if none is left."""
        for side in document["kafka"].values():
            withhold(side)
        spoke, kept, unnamed = False, False, False
        for name, partition in partitions_of(document):
            spoke = True
            if name is not None and any(fnmatchcase(name, wanted) for wanted in self._topics):
                kept = True
            else:
                unnamed |= partition.pop("records", None) is not None and name is None
        if unnamed:
            self._count(found, _UNNAMED)
        if spoke and not kept:
            self.done.unreadable += unnamed
            self.done.left_out += not unnamed
        return kept or not spoke


def _records_in(document: Document) -> int:
    return sum(
        len(partition["records"].get("records", ()))
        for _, partition in partitions_of(document)
        if "records" in partition
    )


def main(words: Sequence[str]) -> int:
    order = RecorderConfig(**json.loads(words[0]))
    os.nice(_NICENESS)
    rotation = Rotation(order.rotate_bytes, order.rotate_seconds)
    snapshot = Snapshot(Path(order.folder), rotation)
    scribe = Recorder(order, snapshot)
    try:
        _take_all(scribe, snapshot)
        snapshot.close()
    except SnapshotNotWritten as exc:
        scribe.done.error = f"{exc.message}; {exc.hint}"
    _put(scribe.told().as_line())
    return 0 if scribe.done.error is None else 1


def _take_all(scribe: Recorder, snapshot: Snapshot) -> None:
    unpacker, source = Unpacker(), sys.stdin.fileno()
    told, told_s = b"", 0.0
    while True:
        has_come = bool(select.select([source], [], [], 0)[0])
        now_s = time.monotonic()
        if not has_come:
            snapshot.flush()  # flush when idle, so that pairs do not stay in memory
        if now_s - told_s >= _TELL_EVERY_S:
            told_s = now_s
            snapshot.tick()
            line = scribe.told().as_line()
            if line != told:
                _put(line)
                told = line
        if not has_come:
            select.select([source], [], [], _TELL_EVERY_S)
            # The forwarding thread needs the core more: sleep briefly, and read several pairs at once.
            time.sleep(_GATHER_S)
            continue
        data = os.read(source, _READ_BYTES)
        if not data:
            return
        for found in unpacker.take(data):
            scribe.take(found)


def _put(line: bytes) -> None:
    # The proxy may have ended; pairs that were received are written anyway.
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), line)


def as_line(document: Any) -> bytes:
    """Return the document as one line."""
    return _bytes(_dumps(document)) + b"\n"


def in_parts(document: Any) -> Iterator[bytes]:
    """Yield the same line in parts of about 1 MiB."""
    part = bytearray()
    for piece in _pieces(document):
        part += _bytes(piece)
        if len(part) >= _PART_BYTES:
            yield bytes(part)
            part.clear()
    yield bytes(part) + b"\n"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _pieces(value: Any) -> Iterator[str]:
    if _left(value, _PIECE) >= 0:
        yield _dumps(value)
    elif isinstance(value, str):
        yield '"'
        for at in range(0, len(value), _PIECE):
            yield _dumps(value[at : at + _PIECE])[1:-1]
        yield '"'
    elif isinstance(value, dict):
        before = "{"
        for name, each in value.items():
            yield f"{before}{_dumps(name)}:"
            yield from _pieces(each)
            before = ","
        yield "}"
    else:
        before = "["
        for each in value:
            yield before
            yield from _pieces(each)
            before = ","
        yield "]"


def _left(value: Any, most: int) -> int:
    """Return how much of `most` characters a value leaves; stops as soon as it is nothing."""
    if isinstance(value, str):
        return most - len(value) - _SMALL
    if not isinstance(value, dict | list):
        return most - _SMALL
    for each in value.values() if isinstance(value, dict) else value:
        most = _left(each, most)
        if most < 0:
            break
    return most


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
