"""Reads dead letters back: checks that each one in the ledger exists once with its record's content."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from playhead.ledger import ALSO_BURIED, Entry
from playhead.record import Record
from playhead.records import Records
from playhead.source import TopicPartition
from playhead.target import Difference, SliceComparison
from playhead.task.tally import SHOWN


class DeadLetterReader(Protocol):
    """The present dead letters of one replay; picklable."""

    @property
    def where(self) -> str:
        """The description of the topic, for errors."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether the dead-letter topic still has all its records."""
        ...

    def of(self, place: TopicPartition, /) -> Mapping[int, Sequence[int]]:
        """Return by record offset, ascending, the digests of its letters."""
        ...

    def digest(self, record: Record, /) -> int:
        """Return the digest of a letter of this record."""
        ...


@dataclass(slots=True)
class LetterCheck:
    """Compares the dead letters of one slice with its records while these are read for the comparison."""

    letters: DeadLetterReader
    entry: Entry
    _held: dict[int, Sequence[int]] = field(init=False)
    _right: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        slice_ = self.entry.slice
        all_ = self.letters.of(slice_.place)
        offsets = [*all_]
        start, stop = (bisect_left(offsets, at) for at in (slice_.from_offset, slice_.to_offset))
        self._held = {offset: all_[offset] for offset in offsets[start:stop]}

    def passing(self, runs: Iterable[Records]) -> Iterator[Records]:
        """Yield the same runs, and check them."""
        for records in runs:
            for index, offset in enumerate(records.offsets):
                if offset in self._held:
                    self._right[offset] = self.letters.digest(records.record(index))
            yield records

    def added(self, found: SliceComparison) -> SliceComparison:
        """Return the slice's comparison with the result for its dead letters."""
        missing, lost = self._missing()
        wrong = [*self._wrong(), *self._more()]
        unknown = 0 if self.letters.is_whole else missing
        changed = sum(each.kind == "changed" for each in wrong)
        different = len(wrong) + missing - unknown
        if not (self.entry.dead or different or unknown):
            return found
        kind = "unknown" if unknown else "missing"
        where = self.letters.where
        texts = [f"its dead letter is missing in {where}"] * len(lost)
        if missing > len(lost):
            lost = [*lost, self.entry.slice.from_offset]
            texts.append(f"{missing:,} dead letters of {self.entry.slice} are missing in {where}")
        place = self.entry.slice.place
        shown = [Difference(kind, *place, at, text) for at, text in zip(lost, texts, strict=True)]  # type: ignore[arg-type]
        return replace(
            found,
            expected=found.expected + self.entry.dead,
            found=found.found + sum(map(len, self._held.values())),
            same=found.same + max(0, self.entry.dead - missing - changed),
            different=found.different + different,
            unknown=found.unknown + unknown,
            differences=(*wrong, *shown, *found.differences)[:SHOWN],
        )

    def _wrong(self) -> Iterator[Difference]:
        place, where = self.entry.slice.place, self.letters.where
        for offset, digests in self._held.items():
            if offset not in self._right:
                text = f"{where} has a dead letter of this record, which the replay did not reject"
                yield Difference("extra", *place, offset, text)
            elif any(each != self._right[offset] for each in digests):
                yield Difference(
                    "changed", *place, offset, f"its dead letter in {where} has different content"
                )
            for _ in digests[1:]:
                yield Difference("extra", *place, offset, f"it has several dead letters in {where}")

    def _more(self) -> Iterator[Difference]:
        """Count letters of records that were written in the end, beyond those that the ledger counts."""
        known = [offset for offset in self._held if offset in self._right]
        more = len(known) - self._needed()
        text = f"{more:,} more dead letters of {self.entry.slice} than the ledger counts"
        for _ in range(more):
            yield Difference("extra", *self.entry.slice.place, self.entry.slice.from_offset, text)

    def _needed(self) -> int:
        return self.entry.dead + int(self.entry.details.get(ALSO_BURIED, 0))

    def _missing(self) -> tuple[int, list[int]]:
        """Return how many letters are missing, and which of them the ledger names."""
        named = named_refused(self.entry) if self.entry.dead else set()
        lost = sorted(offset for offset in named if offset not in self._held)
        return max(len(lost), self._needed() - len(self._held)), lost[:SHOWN]


def named_refused(entry: Entry) -> set[int]:
    """Return the offsets of refused records in an entry, which lists only some if there are very many."""
    found: set[int] = set()
    refused = entry.details.get("refused", ())
    # An earlier version only counted those of SQLite.
    for each in () if isinstance(refused, int) else refused:
        if isinstance(each, int):
            found.add(each)
        else:
            first, count = each
            found.update(range(first, first + count))
    return found


def are_counted(entries: Iterable[Entry]) -> bool:
    """Return whether a ledger has any dead letters."""
    return any(each.dead or each.details.get(ALSO_BURIED) for each in entries)
