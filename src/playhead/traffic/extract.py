"""Extracts rows of values from a snapshot, one for each pair that has all of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from playhead.errors import PlayheadError
from playhead.traffic.filter.parse import TrafficFilter
from playhead.traffic.formats.extract_csv import UUID_COLUMN
from playhead.traffic.formats.rrpair import pairs
from playhead.traffic.json_documents import Document
from playhead.traffic.pair import Pair, uuid_of
from playhead.traffic.pair_path import MISSING, Path, shown
from playhead.traffic.record_sets import lots_of
from playhead.traffic.snapshot import Snapshot

_MOST_NAMED = 5


class NotAllExtracted(PlayheadError):
    """Lines or documents of the snapshot could not be read; the rest was extracted."""

    def __init__(self, snapshot: str, *, unread: int) -> None:
        self.snapshot, self.unread = snapshot, unread
        super().__init__(
            f"{unread:,} of the documents in {snapshot} could not be read; the rest was extracted",
            hint="if the snapshot is still being recorded, extract again when it is complete",
        )


@dataclass(slots=True)
class Extract:
    """One extraction, and its counts."""

    paths: Sequence[Path]
    filter: TrafficFilter | None = None
    pairs: int = 0
    matching: int = 0
    rows: int = 0
    carried: int = 0
    """Number of Kafka records in the matching pairs."""
    lacking: Counter[str] = field(default_factory=Counter)
    """Number of matching pairs without a value at a path, by path."""
    unread: int = 0
    complaints: list[str] = field(default_factory=list)

    @property
    def header(self) -> list[str]:
        return [*(path.written for path in self.paths), UUID_COLUMN]

    def run(self, snapshot: Snapshot) -> Iterator[list[str]]:
        """Yield the rows, in the order of capture."""
        for where, found in pairs(snapshot):
            if not isinstance(found, Document):
                self.unread += 1
                if len(self.complaints) < _MOST_NAMED:
                    self.complaints.append(f"{where}: {found}")
                continue
            self.pairs += 1
            pair = found.held
            if self.filter is not None and not self.filter.matches(pair):
                continue
            self.matching += 1
            if "kafka" in pair:
                self.carried += sum(len(lot.rows) for lot in lots_of(pair).lots)
            row = self._row(pair)
            if row is not None:
                self.rows += 1
                yield row

    def _row(self, pair: Pair) -> list[str] | None:
        cells = [path.of(pair) for path in self.paths]
        lacking = [
            path.written for path, cell in zip(self.paths, cells, strict=True) if cell is MISSING
        ]
        if lacking:
            self.lacking.update(lacking)
            return None
        return [*map(shown, cells), uuid_of(pair)]

    def told(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        yield f"{self.rows:,} rows of {self.matching:,} matching pairs, of {self.pairs:,} in total"
        for path, count in self.lacking.items():
            yield f"{count:,} matching pairs have no value at {path}"
        reaches_records = any(path.steps[:1] == ("kafka",) for path in self.paths)
        if reaches_records and self.carried > self.rows:
            yield (
                f"the matching pairs contain {self.carried:,} records, and a row has one record of its pair: "
                "add --all-records for all of them"
            )
        yield from self.complaints
        if self.unread > len(self.complaints):
            yield f"{self.unread - len(self.complaints):,} more documents could not be read"
