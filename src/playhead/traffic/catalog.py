"""The result of one scan of a capture: the position of each record set, and counts."""

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple

from playhead.source import TopicPartition

_VERSION: Final = 4
_MOST_NAMED = 20


class CatalogRow(NamedTuple):
    """The position of one record set of a partition, and what an index needs of it."""

    file: int
    start: int
    """In bytes of the decompressed file; of the record set, or of its document if `nth` is not -1."""
    length: int
    nth: int
    """Its number among the record sets of its document; -1 if it can be read by itself."""
    base: int
    """The base of its offsets; -1 if it is unknown."""
    first: int
    """The offsets of the first and the last record, relative to the base."""
    last: int
    records: int
    least_ms: int
    most_ms: int
    pair_ms: int
    """The time of capture; -1 if the document has none."""
    append_ms: int
    mark: int
    """A hash of the records without their offsets and times: two record sets with equal hashes at the same
    offsets are equal. 0 means no hash. Of numbered records, by how many ms the first is later than the
    earliest. In a log, the length of a row that is too long to be read, whose own length is 0."""


_WIDTH: Final = len(CatalogRow._fields)


def row_at(rows: "array[int]", index: int) -> CatalogRow:
    return CatalogRow(*rows[index * _WIDTH : (index + 1) * _WIDTH])


def column(rows: "array[int]", name: str) -> "array[int]":
    """Return one field of all rows."""
    return rows[CatalogRow._fields.index(name) :: _WIDTH]


@dataclass(slots=True)
class Trouble:
    """A reason why data could not be read, its first place, and its count."""

    reason: str
    file: str
    line: int
    count: int = 1

    def __str__(self) -> str:
        times = f", {self.count:,} times" if self.count > 1 else ""
        return f"{self.file}:{self.line}: {self.reason}{times}"


@dataclass(slots=True)
class Catalog:
    """The index data of a capture, without its records."""

    rows: dict[TopicPartition, "array[int]"] = field(default_factory=dict)
    """Rows by topic (or `id:` and topic id) and partition, in the order of capture."""
    counts: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Topic names by topic id."""
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
        """Count a reason why data could not be read; beyond a limit, further reasons are counted as one."""
        if reason not in self.troubles and len(self.troubles) >= _MOST_NAMED:
            reason = "other reasons"
        known = self.troubles.setdefault(reason, Trouble(reason, file, line, 0))
        known.count += by

    def rows_of(self, place: TopicPartition) -> list[CatalogRow]:
        held = self.rows[place]
        return [row_at(held, index) for index in range(len(held) // _WIDTH)]

    def merge(self, other: "Catalog", lines_before: int) -> None:
        """Add the catalog of a later part of the same capture; `lines_before` lines of its file precede the part."""
        for place, rows in other.rows.items():
            self.rows.setdefault(place, array("q")).extend(rows)
        for what, count in other.counts.items():
            self.count(what, count)
        self.names.update(other.names)
        for each in other.troubles.values():
            self.trouble(each.reason, each.file, each.line + lines_before, each.count)

    # --- serialisation

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
        """Read a catalog; raises `ValueError` or `EOFError` if it is not valid."""
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
