"""Counts of forwarded pairs by outcome; the outcomes add up to the number of pairs."""

from dataclasses import asdict, dataclass, field
from typing import Any

from playhead.errors import PlayheadError
from playhead.grammar.size import show_size


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts at one moment. A pair is a request with its response, or without one."""

    connections: int = 0
    open_connections: int = 0
    to_broker_bytes: int = 0
    to_client_bytes: int = 0
    pairs: int = 0
    """Requests that were answered, or whose connection has ended."""
    written: int = 0
    left_out: int = 0
    """Pairs about topics that do not match --topics."""
    dropped: int = 0
    """Pairs that were not recorded, because memory was full or the recorder had ended."""
    unreadable: int = 0
    """Pairs whose header cannot be decoded, or with --topics whose topics are not known."""
    records: int = 0
    """Records in the pairs that were written."""
    written_bytes: int = 0
    """Size of the pairs that were written."""
    files: int = 0
    held_bytes: int = 0
    most_held_bytes: int = 0
    redacted_fields: int = 0
    redacted_values: int = 0
    undecodable: dict[str, int] = field(default_factory=dict)
    """Pairs that could not be decoded, by API, version and reason; they are recorded as bytes."""
    brokers: dict[str, str] = field(default_factory=dict)
    """Local address for each broker."""
    troubles: dict[str, int] = field(default_factory=dict)
    """Number of closed connections by reason."""

    @property
    def waiting(self) -> int:
        return self.pairs - self.written - self.left_out - self.dropped - self.unreadable

    @property
    def lost(self) -> int:
        """Pairs that were forwarded and should have been recorded, but were not."""
        return self.dropped + max(self.waiting, 0) + self.unreadable

    def as_document(self) -> dict[str, Any]:
        return asdict(self) | {"waiting": self.waiting, "lost": self.lost}

    def shown(self) -> str:
        """Return the sum as text; outcomes without pairs are left out, except `written`."""
        told = {
            "waiting": self.waiting,
            "of other topics": self.left_out,
            "dropped": self.dropped,
            "unreadable": self.unreadable,
        }
        parts = [f"{self.written:,} written"]
        parts += [f"{count:,} {what}" for what, count in told.items() if count]
        passed = show_size(self.to_broker_bytes + self.to_client_bytes)
        return (
            f"{self.pairs:,} pairs = {' + '.join(parts)}; {self.records:,} records, "
            f"{show_size(self.written_bytes)} in {self.files:,} files; {passed} passed"
        )


class NotAllCaptured(PlayheadError):
    """Some pairs were forwarded and are missing in the snapshot."""

    def __init__(self, counts: Counts, *, reason: str | None) -> None:
        self.counts, self.reason = counts, reason
        was_slow = reason is None and counts.lost > counts.unreadable
        why = [reason] if reason else []
        why += ["they arrived faster than they could be written"] if was_slow else []
        why += [f"{counts.unreadable:,} were unreadable"] if counts.unreadable else []
        super().__init__(
            f"{counts.lost:,} of {counts.pairs:,} pairs are missing in the snapshot: {'; '.join(why)}",
            hint="raise --max-memory, which also bounds the largest pair; --on-slow block slows clients instead"
            if was_slow
            else None,
        )


@dataclass(slots=True)
class StatusReporter:
    """Builds the status lines of a running capture: problems at once, counts at intervals."""

    every_s: float
    _told: Counts = field(default_factory=Counts)
    _told_s: float | None = None
    _heard: set[str] = field(default_factory=set)
    _is_stopping: bool = False

    def is_due(self, now_s: float) -> bool:
        """Return whether the counts should be printed."""
        if self._told_s is None:
            self._told_s = now_s
        if now_s - self._told_s < self.every_s:
            return False
        self._told_s = now_s
        return True

    def lines(
        self, counts: Counts, now_s: float, error: str | None, *, is_stopping: bool = False
    ) -> list[str]:
        """Return the status lines to print now."""
        lines = [f"warning: {what}" for what in counts.troubles if what not in self._heard]
        self._heard.update(counts.troubles)
        for broker, here in counts.brokers.items():
            if here not in self._heard:
                self._heard.add(here)
                lines.append(f"{here} leads to broker {broker}")
        if error is not None and error not in self._heard:
            self._heard.add(error)
            lines.append(f"warning: recording has stopped, clients are not affected: {error}")
        if is_stopping and error is None and counts.waiting > 0 and not self._is_stopping:
            self._is_stopping = True
            rest = f"{counts.waiting:,} pairs are still to be written"
            lines.append(f"stopping; {rest}; Ctrl-C again does not wait for that")
        if self.is_due(now_s):
            if (lost := counts.dropped - self._told.dropped) > 0:
                lines.append(f"warning: {lost:,} pairs were dropped")
            if (counts.pairs, counts.written) != (self._told.pairs, self._told.written):
                lines.append(counts.shown())
            self._told = counts
        return lines
