"""Counts what becomes of every record of one slice, and says what to do with one that cannot be written."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playhead.absence import MOST_BLANKS, Blank, Explained
from playhead.checksum import NOTHING, Checksum
from playhead.errors import BadValue, PlayheadError
from playhead.ledger import ALSO_BURIED, NOT_KEPT, Entry
from playhead.record import Record, Slice


class RecordRefused(PlayheadError):
    """A record that the target cannot take, and the rule is to stop there."""

    def __init__(self, record: Record, *, kind: str, reason: str) -> None:
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        self.kind, self.reason = kind, reason
        super().__init__(
            f"{record.topic}:{record.partition} offset {record.offset}: {reason}",
            hint="look at it, then choose: --on-error skip leaves such records out and counts them, "
            "--on-error dlq:TOPIC keeps them with the reason",
        )


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """What happens to a record that cannot be written: `fail`, `skip`, or `dlq:TOPIC`."""

    action: str = "fail"
    topic: str | None = None

    def __post_init__(self) -> None:
        if (self.action == "dlq") != bool(self.topic) or self.action not in ("fail", "skip", "dlq"):
            raise ValueError(f"ErrorRule: found {self.action!r} with topic {self.topic!r}")

    @classmethod
    def parse(cls, text: str) -> "ErrorRule":
        action, colon, topic = text.partition(":")
        if (text in ("fail", "skip")) or (action == "dlq" and topic):
            return cls(action, topic if colon else None)
        raise BadValue("--on-error", found=text, needed="fail, skip or dlq:TOPIC")

    def __str__(self) -> str:
        return self.action if self.topic is None else f"{self.action}:{self.topic}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be written, and why; `kind` is one word, for counting and filtering."""

    record: Record
    kind: str
    reason: str


WriteDeadLetters = Callable[[Slice, Sequence[DeadLetter]], int | None]
"""Buries what of a slice is not buried yet, and says how many others of it are; None when it cannot say."""


class Account:
    """One slice's counts, kept by whoever handles its records on the way to one commit.

    The runner fills in what it read and left out. The target calls `refuse` for each record that it
    cannot take, then `close` just before its own commit, and commits the entry with the data. When a
    target has to start a slice over, it calls `start_over` first.
    """

    def __init__(
        self,
        slice_: Slice,
        rule: ErrorRule | None = None,
        bury: WriteDeadLetters | None = None,
        *,
        is_endless: bool = False,
    ) -> None:
        self.slice = slice_
        self.is_endless = is_endless
        """Whether slices like this one come for ever: then its entry may be joined to the one that ends
        where it begins, so that the ledger does not grow with them."""
        self.follows: int | None = None
        """Where the offsets end that the plan has before this slice in its partition; None when there are
        none, or when nobody knows. A target that keeps slices in order needs them committed."""
        self.read = self.filtered = self.outside = self.late = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.last_late_ms: int | None = None
        self.checksum: Checksum | None = NOTHING
        """Of all that was read; None once it could not be had."""
        self.absent: list[Blank] = []
        """Offsets that gave no record, for which whoever commits has to find the reason."""
        self.explained = Explained()
        self._rule, self._bury = rule or ErrorRule(), bury
        self._letters: dict[int, DeadLetter] = {}
        self._final: set[int] = set()

    @property
    def refused_offsets(self) -> frozenset[int]:
        """Offsets of the records that were refused and are not to be written."""
        return frozenset(self._letters)

    def refuse(self, record: Record, *, kind: str, reason: str, is_final: bool = False) -> None:
        """This record cannot be written; raises `RecordRefused` when the rule is to stop there.

        It is final when the target does not get the record at all, however often it starts over.
        """
        if self._rule.action == "fail":
            raise RecordRefused(record, kind=kind, reason=reason)
        self._letters.setdefault(record.offset, DeadLetter(record, kind, reason))
        if is_final:
            self._final.add(record.offset)

    def start_over(self) -> None:
        """Forget what the target refused: it goes through the slice's records again."""
        self._letters = {at: self._letters[at] for at in self._letters if at in self._final}

    def back_to(self, refused: Collection[int]) -> None:
        """Forget whom the target refused since these were all: it undoes what it did with the slice."""
        self._letters = {at: self._letters[at] for at in self._letters if at in refused}

    def close(self, details: Mapping[str, Any] | None = None) -> Entry:
        """The entry to commit; dead letters are safe, once, when this returns.

        Records that the target took and did not keep, as a trigger may decide, are told in the details
        (`NOT_KEPT`). They are counted with those that were filtered out, and not as written.

        They are committed before the data, each under its own offset, so that neither a crash in
        between nor a commit that is undone and closed again with other letters writes one twice.
        """
        letters = [self._letters[offset] for offset in sorted(self._letters)]
        also_buried = self._buried(letters) if self._rule.action == "dlq" else 0
        dead = len(letters) if self._rule.action == "dlq" else 0
        skipped = len(letters) - dead
        not_kept = int((details or {}).get(NOT_KEPT, 0))
        return Entry(
            self.slice,
            self.read,
            self.read - self.filtered - not_kept - self.outside - dead - skipped,
            filtered=self.filtered + not_kept,
            outside=self.outside,
            dead=dead,
            skipped=skipped,
            late=self.late,
            first_ms=self.first_ms,
            last_ms=self.last_ms,
            last_late_ms=self.last_late_ms,
            details={**(details or {}), **({ALSO_BURIED: also_buried} if also_buried else {})},
            checksum=self.checksum,
            absences=self.explained.absences,
            unexplained_at=self.explained.unexplained[:MOST_BLANKS],
        )

    def _buried(self, letters: Sequence[DeadLetter]) -> int:
        if self._bury is not None:
            # Also when none is dead now: some may have been at an earlier moment.
            return self._bury(self.slice, letters) or 0
        if letters:
            raise ValueError("Account: the rule is dlq, and there is nobody to bury")
        return 0
