"""What every system that records go to must do: commit slices with their ledger entry."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from playhead.account import Account
from playhead.errors import PlayheadError, Refused
from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.note import Note
from playhead.offset_bitmap import BitmapWords
from playhead.record import Slice
from playhead.records import Records
from playhead.source import SourceFacts, TopicPartition
from playhead.terms import Terms, Whereto


class AlreadyCommitted(Refused):
    """A slice overlaps one that the same replay has committed; nothing was written."""

    def __init__(self, replay_id: str, *, found: Slice, committed: Slice | None) -> None:
        self.replay_id, self.found, self.committed = replay_id, found, committed
        super().__init__(
            f"replay {replay_id} cannot commit {found}: it has committed {committed}",
            hint="another run of this replay is, or was, at work; "
            f"`playhead resume {replay_id}` goes on from the ledger",
        )


class OutOfOrder(AlreadyCommitted):
    """A slice comes after later ones, or before what precedes it; nothing was written.

    As with `AlreadyCommitted`, whoever commits it is late, or too early: the ledger knows what is next.
    """

    def __init__(
        self, replay_id: str, *, found: Slice, committed: Slice | None, needed: int | None = None
    ) -> None:
        super().__init__(replay_id, found=found, committed=committed)
        self.needed = needed
        if needed is None:
            reason = f"it has committed {committed}, which comes later"
        else:
            reason = f"the offsets before it, up to {needed}, are not committed"
        PlayheadError.__init__(
            self,
            f"replay {replay_id} cannot commit {found}: {reason}, and its outcome depends on the order",
            hint=self.hint,
        )


class InUse(Refused):
    """Another run of the same replay is at work."""

    def __init__(self, replay_id: str, *, where: str) -> None:
        self.replay_id, self.where = replay_id, where
        super().__init__(
            f"replay {replay_id} is running already ({where})",
            hint=f"`playhead runs {replay_id}` shows how far it is",
        )


@dataclass(frozen=True, slots=True)
class InspectRequest:
    """What a target is shown of a replay before it says whether it can take it."""

    source: SourceFacts
    partitions: Mapping[str, int]
    """Topic to its number of partitions."""
    samples: Sequence[Records]
    """Some records of each topic, as they would arrive; none for a topic without any."""
    oldest_ms: int | None = None
    """The earliest record time known of, to hold against a retention."""
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By topic, fields of the values and what a schema says of each; see `playhead.decoding`."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a target says to it."""

    identity: str
    """As `SourceFacts.identity`, so that source and target can be compared."""
    notes: tuple[Note, ...] = ()
    creates: tuple[str, ...] = ()
    """What will be made first, in sentences or statements, for people: as `Target.creates` says it."""
    needs: Mapping[str, Any] = field(default_factory=dict)
    """What `prepare` needs to make it; survives JSON, so that a saved plan can carry it. No code."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not in the target as it is in the source."""

    kind: Literal["missing", "extra", "changed", "source", "unknown"]
    """`unknown` is what cannot be told; it is not counted among those that differ."""
    topic: str
    partition: int
    offset: int | None
    text: str


@dataclass(frozen=True, slots=True)
class SliceComparison:
    """A slice of the source held against the target; the checksums do not depend on order.

    Each record that was expected is the same, different, or one of which it cannot be told. Each
    checksum is made of what its own side holds, and never of what is expected there.
    """

    slice: Slice
    expected: int
    found: int
    expected_checksum: str
    found_checksum: str
    differences: tuple[Difference, ...] = ()
    """The first so many of them, with those of which it cannot be told."""
    different: int = 0
    """How many records differ in all, with those that should not be there."""
    same: int = 0
    unknown: int = 0
    """Records of which it cannot be told whether the target has them as it should."""
    missing: tuple[tuple[int, int, int], ...] = ()
    """Where records were looked for, and no more: from offset, to offset and records of each run without one."""
    unlike: int = 0
    """Records that were not looked for, because the target could never have them: tombstones, unreadable ones."""
    extra_fields: ExtraFields = field(default_factory=ExtraFields)
    """The fields of the records that no column of the target takes."""


def at_once() -> None:
    """What `Writer.expect` gives when there is nothing to wait for."""


class Writer(Protocol):
    """An open target; belongs to one thread and to one replay."""

    def expect(self, place: TopicPartition, /) -> Callable[[], None]:
        """Slices of this partition come next: begin what their first commit would have to wait for.

        What it gives waits until that is done. A `commit` without it is no less right.
        """
        ...

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        """Make the records of `account.slice` and the slice's ledger entry visible together, or not at all.

        `records` come in the order of their offsets, in runs of any size, may come slowly, and may be
        none at all, which is progress too. While they are drawn nothing is visible, and an error that
        they raise leaves nothing behind. Those that cannot be written go to `account.refuse`; the entry
        is what `account.close` gives, or where `account.is_endless` the join of that with the entry that
        ends where it begins. A slice that overlaps a committed one of the same replay is
        refused with `AlreadyCommitted`. A target that is ordered refuses with `OutOfOrder` a slice after
        which something of its partition is committed, and one before which `account.follows` is not:
        whoever asks may be a task that was thought to be dead. After any other error the outcome may be
        unknown: the ledger knows it, and this writer is not to be used again. `Unavailable` means that
        trying again later, with a new writer and a new look at the ledger, may well work.
        """
        ...

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison | None:
        """Hold what a commit of these records should have left against what the target has now.

        None when that can be said only after all slices of the replay, by `conclude`.
        """
        ...

    def conclude(self) -> Sequence[SliceComparison]:
        """What `compare` could not say yet: the findings of all slices for which it gave None."""
        return ()


class Target(Protocol):
    """Where records go, and with them, in the same transaction, the ledger of what was committed.

    A picklable description, as a source is. The docstring of an implementation must state three
    things, each by its name:

    - Ordering: what it promises about the order of the records within a slice, and across slices.
    - Idempotence: what happens when records are committed that the target already has.
    - Delivery: its guarantee, and what that guarantee rests on.
    """

    @property
    def is_ordered(self) -> bool:
        """Whether the slices of one partition must be committed one after the other."""
        ...

    def identity(self) -> str:
        """As `Inspection.identity`: what stays the same however it is addressed."""
        ...

    def inspect(self, look: InspectRequest, /) -> Inspection:
        """Say what a replay would do here; refuse what cannot work. Writes nothing."""
        ...

    def creates(self, _needs: Mapping[str, Any], /) -> Sequence[str]:
        """What `prepare` would make of these needs: the very statements, or sentences.

        A saved plan says so, too, but anybody may have written that: what is shown is this. Needs of
        another kind are refused with a ValueError, KeyError, TypeError or AttributeError.
        """
        return ()

    def preview(self, records: Records, /) -> Sequence[Mapping[str, Any]]:
        """What would be written for these records, as rows for people."""
        ...

    def prepare(self, replay_id: str, inspection: Inspection, terms: Terms, /) -> Sequence[Note]:
        """Make the ledger, and what the inspection said would be made; again does no harm.

        The terms are durable before anything is committed. Who comes first writes them, with the
        places that records go to; who comes later with other terms is refused with `OtherTerms`, and
        nothing is made again for it. What is worth knowing is returned: that a ledger has entries and
        no terms, because an earlier version began it.
        """
        ...

    def terms(self, replay_id: str, /) -> Terms | None:
        """The terms of this replay; None when the ledger has none."""
        ...

    def whereto(self, _topics: Collection[str], /) -> Mapping[str, Whereto]:
        """Where records of these source topics go now, as terms have it; nothing where no place has an id."""
        return {}

    def hold(self, replay_id: str, /) -> AbstractContextManager[None]:
        """Keep other runs of the same replay out where the system can, else with `InUse`."""
        ...

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        """What this replay has committed, as the target itself remembers it, in order.

        A replay that nobody knows has committed nothing.
        """
        ...

    @contextmanager
    def watch(self, replay_id: str, /) -> Iterator[Callable[[], Sequence[Entry]]]:
        """`entries` for who asks again and again: what it takes to ask may stay open in between.

        A look that fails says nothing of the next one.
        """
        yield lambda: self.entries(replay_id)

    def compares_in_order(self, _topics: Sequence[str], /) -> bool:
        """Whether one writer has to compare all slices of a replay, those of a partition in order.

        So it is where what a slice left depends on what came later.
        """
        return False

    def open(self, replay_id: str, /) -> AbstractContextManager[Writer]:
        """Connect; the writer's block disconnects."""
        ...


@runtime_checkable
class LiveTarget(Protocol):
    """A target that works in another way when a pipeline writes to it for ever."""

    def for_live(self) -> Target:
        """The same target, for slices that are joined as they come."""
        ...


@dataclass(slots=True)
class HeldOffsets:
    """Which offsets of some spans a table has."""

    words: dict[TopicPartition, list[BitmapWords]] = field(default_factory=dict)
    rows: int = 0
    unplaced: list[str] = field(default_factory=list)
    """Tables with rows that do not say which offset they are."""
    untold: list[str] = field(default_factory=list)
    """Tables that do not say of which topic their rows are."""

    def count(self, topic: str) -> int:
        """How many offsets of a topic there are."""
        its = [words for place, words in self.words.items() if place[0] == topic]
        return sum(each.offsets() for words in its for each in words)

    @property
    def duplicates(self) -> int:
        """Rows beyond the first of each offset."""
        return self.rows - sum(each.offsets() for words in self.words.values() for each in words)


@runtime_checkable
class Inventory(Protocol):
    """A target that knows by itself which records it has, whatever a ledger says: a table.

    Its writer compares an entry of records that no run of Playhead has written, too.
    """

    def held_offsets(self, spans: Sequence[Slice], /) -> HeldOffsets:
        """Which of the spans' offsets are there; refuses tables whose rows do not say it."""
        ...

    def has_offsets(self, topics: Sequence[str], /) -> bool:
        """Whether the rows of all these topics' tables say which offsets they are."""
        ...

    def columns_there(self, topics: Sequence[str], wanted: Sequence[str], /) -> tuple[str, ...]:
        """Those of the wanted columns that the tables of all these topics have."""
        ...

    def safest_conflict_rule(self, topics: Sequence[str], key: Sequence[str], /) -> str | None:
        """The rule under which a record that comes late never replaces a later one's row; None to append."""
        ...

    def known_by_columns(self, columns: tuple[str, ...], /) -> Target:
        """The target as one whose `compare` only looks whether some row has a record's values in these columns."""
        ...


@runtime_checkable
class Archives(Protocol):
    """A target whose ledgers together say what it has."""

    def replays(self) -> Sequence[str]:
        """The ids of the replays that have a ledger here."""
        ...
