"""Dead letters read back: whether each that the ledger counts is there, once, with what its record carries."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from playhead.ledger import ALSO_BURIED, Entry
from playhead.record import Record
from playhead.records import Records
from playhead.source import TopicPartition
from playhead.target import Difference, SliceComparison

_SHOWN = 20


class DeadLetterReader(Protocol):
    """The dead letters of one replay, as they lie there now; picklable."""

    @property
    def where(self) -> str:
        """In words."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether nothing was deleted where they lie."""
        ...

    def of(self, place: TopicPartition, /) -> Mapping[int, Sequence[int]]:
        """By offset of their record, in order, digests of what each letter of it carries."""
        ...

    def digest(self, record: Record, /) -> int:
        """That of a letter of this record."""
        ...


@dataclass(slots=True)
class LetterCheck:
    """The dead letters of one slice against its records, which pass by on their way to be compared."""

    letters: DeadLetterReader
    entry: Entry
    _held: dict[int, Sequence[int]] = field(init=False)
    _right: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        slice_ = self.entry.slice
        all_ = self.letters.of((slice_.topic, slice_.partition))
        offsets = [*all_]
        start, stop = (bisect_left(offsets, at) for at in (slice_.from_offset, slice_.to_offset))
        self._held = {offset: all_[offset] for offset in offsets[start:stop]}

    def passing(self, runs: Iterable[Records]) -> Iterator[Records]:
        """The same runs, looked at."""
        for records in runs:
            for index, offset in enumerate(records.offsets):
                if offset in self._held:
                    self._right[offset] = self.letters.digest(records.record(index))
            yield records

    def added(self, found: SliceComparison) -> SliceComparison:
        """Findings of the slice, with those of its dead letters."""
        missing, lost = self._missing()
        wrong = [*self._wrong(), *self._more()]
        unknown = 0 if self.letters.is_whole else missing
        changed = sum(each.kind == "changed" for each in wrong)
        different = len(wrong) + missing - unknown
        if not (self.entry.dead or different or unknown):
            return found
        kind = "unknown" if unknown else "missing"
        where = self.letters.where
        texts = [f"no dead letter of it in {where}"] * len(lost)
        if missing > len(lost):
            lost = [*lost, self.entry.slice.from_offset]
            texts.append(f"{missing:,} dead letters of {self.entry.slice} are not in {where}")
        place = (self.entry.slice.topic, self.entry.slice.partition)
        shown = [Difference(kind, *place, at, text) for at, text in zip(lost, texts, strict=True)]  # type: ignore[arg-type]
        return replace(
            found,
            expected=found.expected + self.entry.dead,
            found=found.found + sum(map(len, self._held.values())),
            same=found.same + max(0, self.entry.dead - missing - changed),
            different=found.different + different,
            unknown=found.unknown + unknown,
            differences=(*wrong, *shown, *found.differences)[:_SHOWN],
        )

    def _wrong(self) -> Iterator[Difference]:
        place, where = (self.entry.slice.topic, self.entry.slice.partition), self.letters.where
        for offset, digests in self._held.items():
            if offset not in self._right:
                text = f"a dead letter in {where}, of a record that the replay has left out"
                yield Difference("extra", *place, offset, text)
            elif any(each != self._right[offset] for each in digests):
                yield Difference(
                    "changed", *place, offset, f"its dead letter in {where} carries something else"
                )
            for _ in digests[1:]:
                yield Difference("extra", *place, offset, f"several dead letters of it in {where}")

    def _more(self) -> Iterator[Difference]:
        """Letters of records that were written after all, and of which the ledger knows nothing."""
        known = [offset for offset in self._held if offset in self._right]
        more = len(known) - self._needed()
        text = f"{more:,} more dead letters of {self.entry.slice} than the ledger counts"
        for _ in range(more):
            slice_ = self.entry.slice
            yield Difference("extra", slice_.topic, slice_.partition, slice_.from_offset, text)

    def _needed(self) -> int:
        return self.entry.dead + int(self.entry.details.get(ALSO_BURIED, 0))

    def _missing(self) -> tuple[int, list[int]]:
        """How many are not there, and which of them the ledger names."""
        named = named_refused(self.entry) if self.entry.dead else set()
        lost = sorted(offset for offset in named if offset not in self._held)
        return max(len(lost), self._needed() - len(self._held)), lost[:_SHOWN]


def named_refused(entry: Entry) -> set[int]:
    """Offsets of refused records that a target has written into its entry: of very many only some."""
    found: set[int] = set()
    for each in entry.details.get("refused", ()):
        if isinstance(each, int):
            found.add(each)
        else:
            first, count = each
            found.update(range(first, first + count))
    return found


def are_counted(entries: Iterable[Entry]) -> bool:
    """Whether a ledger has any dead letters."""
    return any(each.dead or each.details.get(ALSO_BURIED) for each in entries)
