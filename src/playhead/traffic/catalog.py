"""What one pass over a capture leaves behind: where each lot of records is, and what was counted on the way."""

import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple

from playhead.source import TopicPartition

_VERSION: Final = 1
_MOST_NAMED = 20


class CatalogRow(NamedTuple):
    """Where a lot of one partition's records is, and what an index has to know of it."""

    file: int
    start: int
    """In bytes of the unpacked file; of the lot itself, or of the whole document when `nth` is not -1."""
    length: int
    nth: int
    """Which lot of its document it is; -1 when it can be read by itself."""
    base: int
    """What the offsets in it count from; -1 when nobody knows."""
    first: int
    """The first and the last record's offsets, counted from the base."""
    last: int
    records: int
    least_ms: int
    most_ms: int
    pair_ms: int
    """When it was captured; -1 where the document does not say."""
    append_ms: int
    mark: int
    """Of the first record's content: two lots at one offset with different marks cannot both be right."""


_WIDTH: Final = len(CatalogRow._fields)


@dataclass(slots=True)
class Trouble:
    """Something that could not be read, the first place where it was met, and how often."""

    reason: str
    file: str
    line: int
    count: int = 1

    def __str__(self) -> str:
        times = f", {self.count:,} times" if self.count > 1 else ""
        return f"{self.file}:{self.line}: {self.reason}{times}"


@dataclass(slots=True)
class Catalog:
    """Everything that is known of a capture without keeping a record of it."""

    rows: dict[TopicPartition, "array[int]"] = field(default_factory=dict)
    """By topic (or `id:` and its id) and partition, in the order of capture."""
    counts: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Topics by their ids."""
    troubles: dict[str, Trouble] = field(default_factory=dict)
    identity: str = ""
    columns: tuple[str, ...] = ()
    """The header of a CSV."""

    def count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by

    def add(self, place: TopicPartition, row: CatalogRow) -> None:
        held = self.rows.get(place)
        if held is None:
            held = self.rows[place] = array("q")
        held.extend(row)

    def trouble(self, reason: str, file: str, line: int, by: int = 1) -> None:
        """Note what could not be read; of very many different reasons the later ones are one."""
        if reason not in self.troubles and len(self.troubles) >= _MOST_NAMED:
            reason = "more, each for another reason"
        known = self.troubles.setdefault(reason, Trouble(reason, file, line, 0))
        known.count += by

    def rows_of(self, place: TopicPartition) -> list[CatalogRow]:
        held = self.rows[place].tolist()
        return [CatalogRow(*held[at : at + _WIDTH]) for at in range(0, len(held), _WIDTH)]

    def merge(self, other: "Catalog", lines_before: int) -> None:
        """Take in what a later part of the same capture had, whose file has so many lines before it."""
        for place, rows in other.rows.items():
            self.rows.setdefault(place, array("q")).extend(rows)
        for what, count in other.counts.items():
            self.count(what, count)
        self.names.update(other.names)
        for each in other.troubles.values():
            self.trouble(each.reason, each.file, each.line + lines_before, each.count)

    def sizes(self) -> Iterator[tuple[TopicPartition, int]]:
        """About how many bytes the lots of each partition take in the files."""
        for place, rows in self.rows.items():
            yield place, sum(rows[CatalogRow._fields.index("length") :: _WIDTH])

    # --- kept between processes

    def write(self, file: BinaryIO) -> None:
        head = {
            "version": _VERSION,
            "identity": self.identity,
            "columns": self.columns,
            "counts": self.counts,
            "names": self.names,
            "troubles": [
                [each.reason, each.file, each.line, each.count] for each in self.troubles.values()
            ],
            "places": [[*place, len(rows)] for place, rows in self.rows.items()],
        }
        file.write(json.dumps(head).encode() + b"\n")
        for rows in self.rows.values():
            rows.tofile(file)

    @classmethod
    def read(cls, file: BinaryIO) -> "Catalog":
        """Raises `ValueError` or `EOFError` where it is not what was written."""
        head: Mapping[str, Any] = json.loads(file.readline())
        if head.get("version") != _VERSION:
            raise ValueError("a catalog of another version")
        catalog = cls(
            {}, head["counts"], head["names"], {e[0]: Trouble(*e) for e in head["troubles"]}
        )
        for topic, partition, length in head["places"]:
            catalog.rows[topic, partition] = held = array("q")
            held.fromfile(file, length)
        catalog.identity, catalog.columns = head["identity"], tuple(head["columns"])
        return catalog
