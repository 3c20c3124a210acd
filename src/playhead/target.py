"""The contract of every target: commit slices together with their ledger entries."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from playhead.account import Account
from playhead.errors import PlayheadError, Refused
from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.note import Note
from playhead.record import Slice
from playhead.records import Records
from playhead.source import SourceFacts, TopicPartition
from playhead.terms import Terms, Whereto

AT_EACH_END = 3
"""How many of the first and of the last records are shown."""
DifferenceKind = Literal["missing", "extra", "changed", "source", "unknown"]


class AlreadyCommitted(Refused):
    """A slice overlaps one that the same replay has committed; nothing was written."""

    def __init__(self, replay_id: str, *, found: Slice, committed: Slice | None) -> None:
        self.replay_id, self.found, self.committed = replay_id, found, committed
        super().__init__(
            f"replay {replay_id} cannot commit {found}: it has already committed {committed}",
            hint=f"another run of this replay is or was active; `playhead resume {replay_id}` "
            "continues from the ledger",
        )


class OutOfOrder(AlreadyCommitted):
    """A slice was sent out of order; nothing was written. The ledger knows which one is next."""

    def __init__(
        self, replay_id: str, *, found: Slice, committed: Slice | None, needed: int | None = None
    ) -> None:
        super().__init__(replay_id, found=found, committed=committed)
        self.needed = needed
        reason = f"the offsets before it, up to {needed}, are not committed"
        if needed is None:
            reason = f"it has committed {committed}, which comes later"
        PlayheadError.__init__(
            self,
            f"replay {replay_id} cannot commit {found}: {reason}, and the result depends on the order",
            hint=self.hint,
        )


class InUse(Refused):
    """Another run of the same replay is active."""

    def __init__(self, replay_id: str, *, where: str) -> None:
        self.replay_id, self.where = replay_id, where
        super().__init__(
            f"replay {replay_id} is running already ({where})",
            hint=f"`playhead runs {replay_id}` shows its progress",
        )


class Fenced(InUse):
    """A later writer of the same replay has shut this one out."""

    def __init__(self, replay_id: str) -> None:
        super().__init__(replay_id, where="another run has fenced this one")


@dataclass(frozen=True, slots=True)
class InspectRequest:
    """What a target learns of a replay before it accepts or refuses it."""

    source: SourceFacts
    partitions: Mapping[str, int]
    """The number of partitions of each topic."""
    samples: Sequence[Records]
    """Sample records of each topic, as they would be written; none for an empty topic."""
    oldest_ms: int | None = None
    """The earliest known record time, to compare with a retention."""
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each topic, the fields of its values and their kinds in the schema; see `playhead.decoding`."""
    ends_on_refusal: bool = True
    """Whether a record that cannot be written ends the replay."""
    more: "Callable[[], InspectRequest] | None" = None
    """Samples of the whole span, which take a moment to read; see `wider`."""

    def wider(self) -> "InspectRequest":
        """The same with samples from all parts of the span: for who infers from them what will come."""
        return self if self.more is None else self.more()

    def of(self, topic: str) -> list[Records]:
        """The samples of a topic."""
        return [each for each in self.samples if each.topic == topic]

    def shown(self) -> list[Records]:
        """The first and the last records of each topic, which a plan shows."""
        shown = []
        for topic in [*dict.fromkeys(each.topic for each in self.samples if len(each))][:8]:
            its = [each for each in self.of(topic) if len(each)]
            first = min(its, key=lambda each: each.offsets[0])
            last = max(its, key=lambda each: each.offsets[-1])
            shown.append(first.cut(0, AT_EACH_END))
            begin = max(len(last) - AT_EACH_END, AT_EACH_END if last is first else 0)
            shown += [last.cut(begin, len(last))] if begin < len(last) else []
        return shown


@dataclass(frozen=True, slots=True)
class Inspection:
    """The target's answer to an inspection."""

    identity: str
    """As `SourceFacts.identity`, so that source and target can be compared."""
    notes: tuple[Note, ...] = ()
    creates: tuple[str, ...] = ()
    """What will be created, in sentences or statements, for people; the result of `Target.creates`."""
    needs: Mapping[str, Any] = field(default_factory=dict)
    """What `prepare` needs to create it; JSON values, because a saved plan stores it. It contains no code."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """What would be written for the records that are shown; where there are none, `preview` says it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the source and the target."""

    kind: DifferenceKind
    """`unknown` could not be compared; it is not counted as different."""
    topic: str
    partition: int
    offset: int | None
    text: str


@dataclass(frozen=True, slots=True)
class SliceComparison:
    """A slice of the source compared with the target; the checksums do not depend on the order.

    Each expected record is equal, different, or unknown. Each checksum covers only its own side, never
    what is expected there.
    """

    slice: Slice
    expected: int
    found: int
    expected_checksum: str
    found_checksum: str
    differences: tuple[Difference, ...] = ()
    """The first differences, including unknown ones."""
    different: int = 0
    """How many records differ in all, including those that should not exist."""
    same: int = 0
    unknown: int = 0
    """Records that could not be compared."""
    missing: tuple[tuple[int, int, int], ...] = ()
    """Runs without a row when only existence was checked: from offset, to offset, number of records."""
    keys: tuple[tuple[int, int | None, int], ...] = ()
    """When keys were asked for: offset, a number that stands for the key (None without one), and time of a record."""
    unlike: int = 0
    """Records that were not looked for because the target can never have them: tombstones, unreadable ones."""
    elsewhere: int = 0
    """Records that have a row only if one counts that names another partition, topic or none."""
    extra_fields: ExtraFields = field(default_factory=ExtraFields)
    """The fields of the records that no column of the target takes."""
    refused: tuple[int, ...] = ()
    """Offsets that the target refuses now, which nothing else here counts."""


def at_once() -> None:
    """The result of `Writer.expect` if there is nothing to wait for."""


class Writer(Protocol):
    """An open target; belongs to one thread and one replay."""

    def expect(self, _place: TopicPartition, /) -> Callable[[], None]:
        """Prepare for slices of this partition: start what their first commit would wait for.

        Calling the result waits until the preparation ends. `commit` also works without it.
        """
        return at_once

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        """Make the records of `account.slice` and the ledger entry visible together, or not at all.

        `records` come in offset order, in runs of any size, perhaps slowly, and may be empty, which is
        progress too. While they are read, nothing is visible; if reading raises an error, nothing remains.
        Records that cannot be written go to `account.refuse`. The entry is the result of `account.close`; if
        `account.is_endless`, it is joined with the entry that ends at its start.

        A slice that overlaps a committed one of the same replay raises `AlreadyCommitted`. An ordered target,
        and a table if `account.is_endless`, raises `OutOfOrder` for a slice before a committed one of its
        partition, and for one whose `account.follows` is not committed: the caller may be a task that was
        believed dead, or the target was restored. After any other error the outcome may be unknown: read the
        ledger, and do not use this writer again. `Unavailable`
        means that a later attempt, with a new writer and a new look at the ledger, may succeed.
        """
        ...

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison | None:
        """Compare the records of a committed slice with what the target has now.

        Returns None if the result is known only after all slices; `conclude` then returns it.
        """
        ...

    def conclude(self) -> Sequence[SliceComparison]:
        """Return the comparisons of all slices for which `compare` returned None."""
        return ()


class KnowsReplays(Protocol):
    """Where a replay has written what it did: a target of records, and a server of statements."""

    def terms(self, replay_id: str, /) -> Terms | None:
        """Return the terms of this replay; None if the ledger has none."""
        ...

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        """Return what this replay has committed, from the system itself, in order.

        An unknown replay has committed nothing.
        """
        ...


class Target(KnowsReplays, Protocol):
    """Where records go, and with them, in the same transaction, the ledger of committed slices.

    A picklable description, like a source. The docstring of an implementation must state three things,
    each by its name:

    - Ordering: the order of records within a slice, and across slices.
    - Idempotence: what happens when records are committed that the target already has.
    - Delivery: its guarantee, and what the guarantee rests on.
    """

    @property
    def is_ordered(self) -> bool:
        """Whether the slices of one partition must be committed in order."""
        ...

    def identity(self) -> str:
        """Return the same text for one target, however it is addressed; see `Inspection.identity`."""
        ...

    def inspect(self, look: InspectRequest, /) -> Inspection:
        """Report what a replay would do here, without writing; refuse what cannot work."""
        ...

    def creates(self, _needs: Mapping[str, Any], /) -> Sequence[str]:
        """Return the statements, or sentences, of what `prepare` would create.

        A saved plan has such texts too, but another person may have changed them: these are shown instead.
        Needs of another form raise ValueError, KeyError, TypeError or AttributeError.
        """
        return ()

    def preview(self, _records: Records, /) -> Sequence[Mapping[str, Any]]:
        """Return rows, for people, that show how these records would be written, if `Inspection.rows` does not."""
        return ()

    def prepare(self, replay_id: str, inspection: Inspection, terms: Terms, /) -> Sequence[Note]:
        """Create the ledger and what the inspection said would be created; repeating it is harmless.

        The terms are durable before anything is committed. The first caller writes them, with the places to
        which records go. A later caller with other terms gets `OtherTerms`, and nothing is created for it.
        Returns a note if the ledger has entries without terms, because an earlier version started it.
        """
        ...

    def whereto(self, _topics: Collection[str], /) -> Mapping[str, Whereto]:
        """Return where records of these source topics go now; empty if places have no ids."""
        return {}

    def hold(self, replay_id: str, /) -> AbstractContextManager[None]:
        """Keep other runs of the same replay out, if the system can; raise `InUse` if one is active."""
        ...

    @contextmanager
    def watch(self, replay_id: str, /) -> Iterator[Callable[[], Sequence[Entry]]]:
        """Yield a function like `entries` for repeated calls, which may keep its connection open.

        A failed call does not affect the next one.
        """
        yield lambda: self.entries(replay_id)

    def compares_in_order(self, _topics: Sequence[str], /) -> bool:
        """Return whether one writer must compare all slices, those of a partition in order.

        This is so if the rows of a slice depend on later slices.
        """
        return False

    def open(self, replay_id: str, /) -> AbstractContextManager[Writer]:
        """Connect; leaving the block disconnects."""
        ...


@runtime_checkable
class LiveTarget(Protocol):
    """A target that works differently for a live pipeline."""

    def for_live(self) -> Target:
        """Return the same target for slices that are joined as they arrive."""
        ...


@runtime_checkable
class CommonLedger(Protocol):
    """A target with one ledger for all replays, whose terms say what goes where."""

    def replays_of(self, topics: Collection[str], /) -> Mapping[str, tuple[Terms, Sequence[Entry]]]:
        """By its id each replay and pipeline that has terms, and what it has committed of these topics."""


@runtime_checkable
class Archives(Protocol):
    """A target whose ledgers together say what it has."""

    def replays(self) -> Sequence[str]:
        """Return the ids of the replays that have a ledger here."""


@runtime_checkable
class KeepsFiles(Protocol):
    """A target that keeps records in files, which its ledger names and other programs can remove."""

    def lost_files(self, entries: Sequence[Entry], /) -> Mapping[Slice, str]:
        """Return the slices whose file is missing or has another size, by a listing alone, with the reason."""
        ...
