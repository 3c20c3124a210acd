"""What every system that records come from must do: say what it holds, and read slices."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol, runtime_checkable

from playhead.absence import Blank, Explained, Explainer
from playhead.errors import PlayheadError, Unavailable
from playhead.grammar.instant import show_ms
from playhead.note import Note
from playhead.record import Slice
from playhead.records import Records

TopicPartition = tuple[str, int]
"""A topic and one of its partitions."""

_LOOKS_AGAIN = 2

UNREAD = "unread"
"""The code of a note that names what a source holds and cannot give; a proof says it again."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one partition holds now, half-open.

    `[earliest, stable_end)` can be read; `[stable_end, high_watermark)` belongs to transactions
    that are still open. Ask a live log in this order, and the order of the numbers holds.
    """

    earliest: int
    stable_end: int
    high_watermark: int

    def __post_init__(self) -> None:
        if not 0 <= self.earliest <= self.stable_end <= self.high_watermark:
            raise ValueError(
                f"Bounds: found {self.earliest}, {self.stable_end}, {self.high_watermark}; "
                "needed 0 <= earliest <= stable_end <= high_watermark"
            )


class OutOfBounds(PlayheadError):
    """A slice reaches outside what its partition holds; reading it would be silently short."""

    def __init__(self, slice_: Slice, bounds: Bounds | None) -> None:
        self.slice, self.bounds = slice_, bounds
        held = f"{bounds.earliest}-{bounds.stable_end}" if bounds else "no such partition"
        super().__init__(
            f"cannot read {slice_}: the partition holds {held}",
            hint="the log has moved since this was planned; plan again",
        )


class TimesDisagree(Unavailable):
    """A later time led to an earlier offset, which no log can mean."""

    def __init__(
        self, place: TopicPartition, *, sooner: tuple[int, int], later: tuple[int, int]
    ) -> None:
        self.place, self.sooner, self.later = place, sooner, later
        super().__init__(
            f"{place[0]}:{place[1]} was asked where {show_ms(sooner[0])} is, and said {sooner[1]}; "
            f"of {show_ms(later[0])}, which is later, it said {later[1]}",
            hint="ask again; nothing was planned on it",
        )


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a plan has to know of one topic beside its offsets; None where the system has no such thing."""

    topic_id: str | None = None
    """Changes when a topic is deleted and made again under its old name."""
    sets_log_append_time: bool = False
    is_compacted: bool = False
    retention_ms: int | None = None
    """None when records do not expire by age."""
    bytes_by_partition: Mapping[int, int] = field(default_factory=dict)
    absences: str | None = None
    """What an offset without a record means here; None for what it means in a log."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What a topic made for copies of its records takes over, in its system's own names."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Who the source is and what is known of its topics."""

    identity: str
    """The same for two descriptions of the same system: a cluster's id, an absolute path."""
    topics: Mapping[str, TopicFacts]
    notes: tuple[Note, ...] = ()


class Reader(Protocol):
    """An open source; belongs to one thread."""

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        """The records of the slice that exist, in the order of their offsets, in runs of any size.

        Absent offsets (compacted away, transaction markers, aborted) are simply missing; why they are
        is for `Source.absences` to say. A slice
        that reaches outside `[earliest, stable_end)` is refused with `OutOfBounds`, at the latest
        before the iterator ends: never is an answer silently short. Slices that follow each other are
        read without seeking.
        """
        ...


class Source(Protocol):
    """Where records come from: a picklable description.

    It opens connections only inside its methods and keeps none open between them, so that a copy
    can be sent to another process at any time. Bounds may move from call to call; the records
    of one offset never change.
    """

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        """The bounds of every partition, by topic and partition, empty partitions included."""
        ...

    def facts(self) -> SourceFacts:
        """What a plan has to know beside the bounds."""
        ...

    def offsets_at(self, instant_ms: int, /) -> Mapping[TopicPartition, int]:
        """Of every partition the first offset whose record is not before the instant, else its stable end."""
        ...

    def open(self) -> AbstractContextManager[Reader]:
        """Connect; the reader's block disconnects."""
        ...

    def absences(self) -> AbstractContextManager[Explainer]:
        """Connect, to look for the reasons why offsets gave no record; not through the reader."""
        ...


@runtime_checkable
class Pinned(Protocol):
    """A source that can be held to what a plan has seen of it."""

    def pinned(self, facts: SourceFacts, /) -> Source:
        """This source with just these topics; it refuses to read where they are others by now."""
        ...


class LazyExplainer:
    """Asks a source for the reasons of absent offsets, and connects when there are the first."""

    def __init__(self, source: Source | None) -> None:
        self._source = source
        self._stack = ExitStack()
        self._open: Explainer | None = None

    def explain(self, place: TopicPartition, blanks: Sequence[Blank]) -> Explained:
        """See `playhead.absence.Explainer`; without blanks nobody is asked."""
        if not blanks:
            return Explained()
        if self._source is None:
            return Explained({}, tuple(blanks))
        if self._open is None:
            self._open = self._stack.enter_context(self._source.absences())
        return self._open.explain(place, blanks)

    def close(self) -> None:
        """Let the connection go; it may be used again."""
        self._open = None
        self._stack.close()


def offsets_of(source: Source, *instants_ms: int | None) -> list[Mapping[TopicPartition, int]]:
    """Where each of some rising instants is; of None, an open side of a span, nothing is asked or said.

    Whatever is appended to a log or removed from it meanwhile, the answers rise with the instants:
    those that do not are wrong, and a span made of them would leave out a whole partition.
    """
    found, wrong = _looked_up(source, instants_ms)
    for _ in range(_LOOKS_AGAIN):
        if wrong is not None:
            found, wrong = _looked_up(source, instants_ms)
    if wrong is not None:
        raise wrong
    return found


def _looked_up(
    source: Source, instants_ms: Sequence[int | None]
) -> tuple[list[Mapping[TopicPartition, int]], TimesDisagree | None]:
    found = [{} if each is None else source.offsets_at(each) for each in instants_ms]
    known = [(at, where) for at, where in zip(instants_ms, found, strict=True) if at is not None]
    return found, _falling(known)


def _falling(known: Sequence[tuple[int, Mapping[TopicPartition, int]]]) -> TimesDisagree | None:
    for (sooner_ms, sooner), (later_ms, later) in pairwise(known):
        for place in sorted(sooner.keys() & later.keys()):
            if sooner[place] > later[place]:
                said = (sooner_ms, sooner[place]), (later_ms, later[place])
                return TimesDisagree(place, sooner=said[0], later=said[1])
    return None
