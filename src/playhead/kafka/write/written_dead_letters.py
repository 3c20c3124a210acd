"""Which records of a replay are already in the dead-letter topic, offset by offset."""

import base64
import binascii
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from playhead.kafka.write.ledger import Ledger, entry_of
from playhead.kafka.write.lost_copies import IDS
from playhead.kafka.write.offset_map import OffsetMap, spans
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.source import TopicPartition

DETAIL = "buried"
"""In an entry's details: the offsets of its dead letters."""
_MOST_UNPACKED = 16 << 20
_MOST_BITS = 63


def packed(offsets: Iterable[int]) -> str:
    """Encode offsets as text: the lengths of gaps and runs in turn, compressed.

    100,000 offsets fit into an entry, however they are distributed.
    """
    runs = spans(sorted(set(offsets)))
    edges = [0, *(edge for first, count in runs for edge in (first, first + count))]
    numbers = b"".join(_varint(after - before) for before, after in pairwise(edges))
    return base64.b64encode(zlib.compress(numbers)).decode()


def unpacked(text: str) -> list[range]:
    """Decode the text of `packed` into ascending runs."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(base64.b64decode(text, validate=True), _MOST_UNPACKED)
    except (binascii.Error, zlib.error) as exc:
        raise ValueError(f"offsets of dead letters: {exc}") from exc
    if not unpacking.eof:
        raise ValueError("offsets of dead letters: their text is damaged, or much too long")
    numbers = [*_varints(data)]
    runs, at = [], 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        runs.append(range(at + gap, at + gap + length))
        at += gap + length
    return runs


@dataclass(frozen=True, slots=True)
class _Burial:
    """One commit of dead letters; its offsets are decoded when they are needed."""

    slice: Slice
    text: str | None = None
    runs: tuple[range, ...] = ()
    is_whole: bool = True
    """False if an entry of an earlier version does not list its records."""

    def offsets(self) -> Sequence[range]:
        return self.runs if self.text is None else unpacked(self.text)


@dataclass(slots=True)
class Burials:
    """The dead letters of one partition, as far as the ledger was read."""

    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The topics of dead letters as they are now: letters in a deleted one of the same name are none."""
    _held: dict[bytes, _Burial] = field(default_factory=dict)
    _own: list[_Burial] = field(default_factory=list)
    _end: int = 0
    """The end of the last commit; an endless replay, which has very many, asks only after it."""
    _position: int = -1

    def take_in(self, ledger: Ledger, place: TopicPartition) -> None:
        """Read the ledger's entries of a partition; entries with known keys never change."""
        if self._position == ledger.position:
            return
        self._position = ledger.position
        entries = ledger.raw_of(place)
        for key in entries.keys() - self._held.keys():
            entry = entry_of(key, entries[key])
            burial = _burial(entry) if self._is_there(entry) else _Burial(entry.slice)
            self._held[key] = burial
            self._end = max(self._end, burial.slice.to_offset)

    def _is_there(self, entry: Entry) -> bool:
        then = entry.details.get(IDS) or {}
        return all(self.topic_ids.get(name, id_) == id_ for name, id_ in then.items())

    def add(self, slice_: Slice, offsets: Iterable[int]) -> None:
        """Add what was committed here; the ledger may repeat it."""
        self._own.append(_Burial(slice_, packed(offsets)))
        self._end = max(self._end, slice_.to_offset)

    def missing(self, slice_: Slice, offsets: Iterable[int]) -> list[int]:
        """Return the offsets that have no dead letter yet."""
        there, unsaid = self._of(slice_)
        return [
            offset
            for offset in offsets
            if not _is_in(there, offset) and not any(offset in each for each in unsaid)
        ]

    def others(self, slice_: Slice, offsets: Iterable[int]) -> int:
        """Return how many other offsets of the slice have dead letters."""
        there, _ = self._of(slice_)
        buried = {
            offset
            for run in there
            for offset in range(max(run.start, slice_.from_offset), min(run.stop, slice_.to_offset))
        }
        return len(buried.difference(offsets))

    def _of(self, slice_: Slice) -> tuple[list[range], list[Slice]]:
        """Return the runs of dead letters in a slice, in order, and slices for which they are unknown."""
        if slice_.from_offset >= self._end:
            return [], []
        touching = [
            each for each in (*self._held.values(), *self._own) if each.slice.overlaps(slice_)
        ]
        runs = sorted(
            (run for each in touching for run in each.offsets()), key=lambda run: run.start
        )
        return _joined(runs), [each.slice for each in touching if not each.is_whole]


def _burial(entry: Entry) -> _Burial:
    text = entry.details.get(DETAIL)
    if text is not None:
        return _Burial(entry.slice, text)
    # Earlier versions wrote a slice's letters together, and the map of its copies may identify
    # them.
    map_ = OffsetMap.from_details(entry.details) if entry.written else None
    runs = tuple(
        range(run.source_offset, run.source_offset + run.length)
        for run in (map_.runs if map_ is not None else ())
    )
    return _Burial(entry.slice, None, runs, map_ is None or map_.exact)


def _joined(runs: Sequence[range]) -> list[range]:
    found: list[range] = []
    for run in runs:
        if found and run.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, run.stop))
        else:
            found.append(run)
    return found


def _is_in(runs: Sequence[range], offset: int) -> bool:
    at = bisect_right(runs, offset, key=lambda run: run.start) - 1
    return at >= 0 and offset in runs[at]


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _varints(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        if shift > _MOST_BITS:
            raise ValueError("offsets of dead letters: a number of more than 64 bits")
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield number
            number = shift = 0
