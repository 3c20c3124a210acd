"""The contract of every source: report what it holds, and read slices."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol, runtime_checkable

from playhead.absence import Blank, Explained, Explainer
from playhead.errors import PlayheadError, Unavailable
from playhead.grammar.instant import show_ms
from playhead.host.clock import wait_until
from playhead.note import Note
from playhead.record import Slice
from playhead.records import Records

TopicPartition = tuple[str, int]
"""A topic and one of its partitions."""

_LOOKS_AGAIN = 2
_END_WITHIN_S = 3.0

NOT_WHOLE = "cannot be read whole: "
"""The beginning of the reason for a record of which a part cannot be read: its dead letter lacks that part."""
UNREADABLE = "unreadable"
"""The kind of such a refusal."""
UNREAD = "unread"
"""The code of a note on data that a source holds but cannot return; a proof repeats the note."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The half-open bounds of one partition at this moment.

    `[earliest, stable_end)` can be read; `[stable_end, high_watermark)` belongs to open transactions. Ask a
    live log for the three in this order, and they are ascending.
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


def bounds_reaching(
    look: Callable[[], Mapping[TopicPartition, Bounds]], ends: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, Bounds]:
    """Return the bounds when the logs reach these ends, or if they do not within three seconds.

    A new leader of a partition learns late what was committed, and reports an earlier end until then.
    """
    found: dict[TopicPartition, Bounds] = {}

    def all_are_reached() -> bool:
        found.clear()
        found.update(look())
        return all(at in found and found[at].high_watermark >= end for at, end in ends.items())

    wait_until(all_are_reached, deadline_s=_END_WITHIN_S, every_s=0.2)
    return found


class OutOfBounds(PlayheadError):
    """A slice is outside the partition's bounds; reading it would silently return too little."""

    def __init__(self, slice_: Slice, bounds: Bounds | None) -> None:
        self.slice, self.bounds = slice_, bounds
        why = "the topic has no such partition"
        if bounds is not None:
            why = f"the partition holds {bounds.earliest}-{bounds.stable_end}"
        super().__init__(
            f"cannot read {slice_}: {why}",
            hint="the log has changed since the plan was made; make a new plan",
        )


class UnreadableRecord(PlayheadError):
    """A part of a record cannot be read; `marked` returns the record without it."""

    def __init__(self, rest: Records, reason: str) -> None:
        self._rest, self.reason, self.offset = rest, NOT_WHOLE + reason, rest.offsets[0]
        at = f"{rest.topic}:{rest.partition}"
        super().__init__(
            f"{at} offset {self.offset}: {self.reason}",
            hint=f"read the records before and after it: --offsets {at}:FROM-TO without this offset",
        )

    def marked(self) -> Records:
        """Return the record without that part, as one to reject."""
        return replace(self._rest, decoded=self._rest.values, undecoded={self.offset: self.reason})


class TimesDisagree(Unavailable):
    """A later time gave an earlier offset, which is impossible in a log."""

    def __init__(
        self, place: TopicPartition, *, sooner: tuple[int, int], later: tuple[int, int]
    ) -> None:
        self.place, self.sooner, self.later = place, sooner, later
        super().__init__(
            f"{place[0]}:{place[1]}: the offset of {show_ms(sooner[0])} is {sooner[1]}, but "
            f"that of the later {show_ms(later[0])} is {later[1]}",
            hint="run the command again; nothing was planned from these answers",
        )


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a plan needs to know about a topic beside its offsets; None where the system has no such value."""

    topic_id: str | None = None
    """Changes when a topic is deleted and created again under the same name."""
    sets_log_append_time: bool = False
    is_compacted: bool = False
    retention_ms: int | None = None
    """None if records do not expire by age."""
    bytes_by_partition: Mapping[int, int] = field(default_factory=dict)
    absences: str | None = None
    """What an offset without a record means in this topic; None for the meaning in a log."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that a copy of the topic takes over, under the system's own names."""
    untimed_ms: int | None = None
    """The time of records that have none of their own; fixed by the plan."""
    leader_epochs: Mapping[int, int] = field(default_factory=dict)
    """The epoch of each partition's leader, asked after the bounds: none of their records has a later one."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The identity of the source, and the facts about its topics."""

    identity: str
    """Equal for two descriptions of the same system: a cluster's id, an absolute path."""
    topics: Mapping[str, TopicFacts]
    notes: tuple[Note, ...] = ()


@runtime_checkable
class KeepsEpochs(Protocol):
    """A source that tells if records of a log were replaced."""

    def ends_of_epochs(
        self, epochs: Mapping[TopicPartition, int], /
    ) -> Mapping[TopicPartition, int]:
        """Return where the records up to an epoch end; nothing for a partition of which that is unknown."""
        ...


class Reader(Protocol):
    """An open source; belongs to one thread."""

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        """Read the existing records of the slice in offset order, in runs of any size.

        Absent offsets (compacted, transaction markers, aborted) are missing; `Source.absences` explains them.
        A slice outside `[earliest, stable_end)` raises `OutOfBounds`, at the latest before the iterator ends:
        the result is never silently short. Slices that follow each other are read without a seek.
        """
        ...


class RejectingReader:
    """Reads a record of which a part cannot be read without that part, and marks it as one to reject."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        at = slice_.from_offset
        while at < slice_.to_offset:
            try:
                yield from self._reader.read(replace(slice_, from_offset=at))
                return
            except UnreadableRecord as exc:
                yield exc.marked()
                at = exc.offset + 1


@contextmanager
def rejecting(source: "Source") -> Iterator[RejectingReader]:
    """Open a source whose records that cannot be read are marked, and end nothing."""
    with source.open() as reader:
        yield RejectingReader(reader)


class Source(Protocol):
    """Where records come from: a picklable description.

    It opens connections only inside its methods and keeps none open between them, so that a copy can be
    sent to another process at any time. Bounds may move between calls; the records of an offset never
    change.
    """

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        """Return the bounds of every partition, including empty ones."""
        ...

    def facts(self) -> SourceFacts:
        """Return what a plan needs to know beside the bounds."""
        ...

    def offsets_at(self, instant_ms: int, /) -> Mapping[TopicPartition, int]:
        """Return for every partition the first offset whose record is not before the time, else its stable end."""
        ...

    def open(self) -> AbstractContextManager[Reader]:
        """Connect; leaving the block disconnects."""
        ...

    def absences(self) -> AbstractContextManager[Explainer]:
        """Connect to find out why offsets gave no record; a reader cannot say it."""
        ...


@runtime_checkable
class HasTransactions(Protocol):
    """A source of which some records may belong to transactions that are still open."""

    def open_transactions(self, bounds: Mapping[TopicPartition, Bounds], /) -> set[TopicPartition]:
        """Those of the partitions that have one now which began before their high watermark of then."""
        ...


@runtime_checkable
class Growing(Protocol):
    """A source that can be asked again and again what it holds, on one connection."""

    def watched(self) -> AbstractContextManager[Callable[[], Mapping[TopicPartition, Bounds]]]:
        """Yield a function that returns the bounds of every partition now."""
        ...

    def open(self) -> AbstractContextManager[Reader]:
        """See `Source.open`."""
        ...


@runtime_checkable
class Pinned(Protocol):
    """A source that can be bound to the facts of a plan."""

    def pinned(self, facts: SourceFacts, /) -> Source:
        """Return this source with these topics only; it refuses to read topics that were replaced since."""
        ...


@runtime_checkable
class ReadsDirectly(Protocol):
    """A source whose log can also be read without the client that reads it for a replay."""

    def read_directly(self) -> Source:
        """Return this source with readers that share no decoder with the others."""
        ...


def read_directly(source: Source) -> Source:
    """Return the source with its other readers if it has them."""
    return source.read_directly() if isinstance(source, ReadsDirectly) else source


class LazyExplainer:
    """Asks a source for the reasons of absent offsets; connects at the first question."""

    def __init__(self, source: Source | None) -> None:
        self._source = source
        self._stack = ExitStack()
        self._open: Explainer | None = None

    def explain(self, place: TopicPartition, blanks: Sequence[Blank]) -> Explained:
        """See `playhead.absence.Explainer`; without blanks, nothing is asked."""
        if not blanks:
            return Explained()
        if self._source is None:
            return Explained({}, tuple(blanks))
        if self._open is None:
            self._open = self._stack.enter_context(self._source.absences())
        return self._open.explain(place, blanks)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        self._open = None
        self._stack.close()


def offsets_of(source: Source, *instants_ms: int | None) -> list[Mapping[TopicPartition, int]]:
    """Return the offsets of ascending times; None, an open side of a span, has no offsets.

    The answers must ascend with the times, even while the log changes: others are wrong, and a span made
    of them would leave out a whole partition.
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
