"""Counts the outcome of every record of one slice, and applies the error rule to records that cannot be written."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playhead.absence import MOST_BLANKS, Blank, Explained
from playhead.checksum import NOTHING, Checksum
from playhead.errors import BadValue, PlayheadError
from playhead.ledger import ALSO_BURIED, NOT_KEPT, Entry
from playhead.record import Record, Slice


class RecordRefused(PlayheadError):
    """The target cannot write a record, and the error rule is `fail`."""

    def __init__(self, record: Record, *, kind: str, reason: str) -> None:
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        self.kind, self.reason = kind, reason
        super().__init__(
            f"{record.topic}:{record.partition} offset {record.offset}: {reason}",
            hint="inspect the record, then choose: --on-error skip leaves such records out "
            "and counts them, --on-error dlq:TOPIC writes them to a topic with the "
            "reason",
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
    """A record that could not be written, with the reason; `kind` is one word, for counting and filtering."""

    record: Record
    kind: str
    reason: str


WriteDeadLetters = Callable[[Slice, Sequence[DeadLetter]], int | None]
"""Writes the dead letters of a slice that are not in the dead-letter topic yet.

Returns how many other records of the slice the topic already has, or None if that is unknown.
"""


class Account:
    """The counts of one slice between its first read and its commit.

    The runner counts what it read and left out. The target calls `refuse` for each record that it cannot
    write, then `close` just before its commit, and commits the entry with the data. A target that must
    start a slice again calls `start_over` first.
    """

    def __init__(
        self,
        slice_: Slice,
        rule: ErrorRule | None = None,
        write_dead_letters: WriteDeadLetters | None = None,
        *,
        is_endless: bool = False,
    ) -> None:
        self.slice = slice_
        self.is_endless = is_endless
        """Whether slices like this one never end (a live pipeline).

        The ledger then joins the entry with the one that ends at its start, so that it does not
        grow forever.
        """
        self.follows: int | None = None
        """The end of the planned offsets before this slice in its partition.

        None if there are no such offsets, or if they are unknown. An ordered target requires them to be
        committed first. For a live pipeline, it is where its ledger ended when that was seen last.
        """
        self.read = self.filtered = self.outside = self.late = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.last_late_ms: int | None = None
        self.checksum: Checksum | None = NOTHING
        """The checksum of all records read so far; None if it could not be computed."""
        self.outside_at: tuple[Blank, ...] | None = ()
        """Runs of records outside of the span; None if they are too many."""
        self.absent: list[Blank] = []
        """Offsets that gave no record; the reason is found before the commit."""
        self.explained = Explained()
        self._rule, self._write_dead_letters = rule or ErrorRule(), write_dead_letters
        self._letters: dict[int, DeadLetter] = {}
        self._final: set[int] = set()
        self.entry: Entry | None = None
        """What `close` returned last."""

    @property
    def refused_offsets(self) -> frozenset[int]:
        """The offsets of refused records, which must not be written."""
        return frozenset(self._letters)

    def refuse(self, record: Record, *, kind: str, reason: str, is_final: bool = False) -> None:
        """Refuse a record that cannot be written; raise `RecordRefused` if the rule is `fail`.

        `is_final` means that the target never gets the record, even if it starts the slice again.
        """
        if self._rule.action == "fail":
            raise RecordRefused(record, kind=kind, reason=reason)
        self._letters.setdefault(record.offset, DeadLetter(record, kind, reason))
        if is_final:
            self._final.add(record.offset)

    def start_over(self) -> None:
        """Forget what the target refused, because it reads the slice's records again."""
        self._letters = {at: self._letters[at] for at in self._letters if at in self._final}

    def back_to(self, refused: Collection[int]) -> None:
        """Forget the refusals after `refused`, because the target undoes its work on the slice."""
        self._letters = {at: self._letters[at] for at in self._letters if at in refused}

    def close(self, details: Mapping[str, Any] | None = None) -> Entry:
        """Return the entry to commit, after writing the slice's dead letters exactly once.

        Records that the target accepted but did not keep, for example because of a trigger, are in the
        details as `NOT_KEPT`. They count as filtered, not as written.

        Dead letters are committed before the data, each under its own offset. Therefore a crash in between,
        or a second `close` with other letters after an undone commit, writes none of them twice.
        """
        letters = [self._letters[offset] for offset in sorted(self._letters)]
        also_buried = self._buried(letters) if self._rule.action == "dlq" else 0
        dead = len(letters) if self._rule.action == "dlq" else 0
        skipped = len(letters) - dead
        not_kept = int((details or {}).get(NOT_KEPT, 0))
        self.entry = Entry(
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
            outside_at=self.outside_at,
        )
        return self.entry

    def _buried(self, letters: Sequence[DeadLetter]) -> int:
        if self._write_dead_letters is not None:
            # Also without dead letters now: an earlier `close` may have written some.
            return self._write_dead_letters(self.slice, letters) or 0
        if letters:
            raise ValueError("Account: the rule is dlq, but nothing writes dead letters")
        return 0
