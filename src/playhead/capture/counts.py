"""What became of every pair that passed, as one sum that has to come out."""

from dataclasses import asdict, dataclass, field
from typing import Any

from playhead.errors import PlayheadError
from playhead.grammar.size import show_size


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one moment. A pair is a request with its response, or with none."""

    connections: int = 0
    open_connections: int = 0
    to_broker_bytes: int = 0
    to_client_bytes: int = 0
    pairs: int = 0
    """Requests that were answered, or that can no longer be."""
    written: int = 0
    left_out: int = 0
    """Pairs that speak only of topics that were not asked for."""
    dropped: int = 0
    """Pairs that found the memory full, or nobody to write them down."""
    unreadable: int = 0
    """Pairs whose head says nothing."""
    records: int = 0
    """Records in what was written."""
    written_bytes: int = 0
    """Of what was written."""
    files: int = 0
    held_bytes: int = 0
    most_held_bytes: int = 0
    redacted_fields: int = 0
    redacted_values: int = 0
    undecodable: dict[str, int] = field(default_factory=dict)
    """By API, version and reason; written down as the bytes they are."""
    brokers: dict[str, str] = field(default_factory=dict)
    """Which address here leads to which broker."""
    troubles: dict[str, int] = field(default_factory=dict)
    """Why connections were ended, and how often."""

    @property
    def waiting(self) -> int:
        return self.pairs - self.written - self.left_out - self.dropped - self.unreadable

    @property
    def lost(self) -> int:
        """Pairs that passed and are not written, though they were asked for."""
        return self.dropped + max(self.waiting, 0) + self.unreadable

    def as_document(self) -> dict[str, Any]:
        return asdict(self) | {"waiting": self.waiting, "lost": self.lost}

    def shown(self) -> str:
        """The sum in words; what is nothing is left out, but for the first."""
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
    """The traffic passed, and something of it is not in the snapshot."""

    def __init__(self, counts: Counts, *, reason: str | None) -> None:
        self.counts, self.reason = counts, reason
        super().__init__(
            f"{counts.lost:,} of {counts.pairs:,} pairs are not in the snapshot"
            + (f": {reason}" if reason else ": they came faster than they could be written"),
            hint=None
            if reason
            else "--on-slow block slows the clients instead; a larger --max-memory bridges more",
        )


@dataclass(slots=True)
class StatusReporter:
    """Decides what is said of a run that goes on and on: troubles at once, figures now and then."""

    every_s: float
    _told: Counts = field(default_factory=Counts)
    _told_s: float | None = None
    _heard: set[str] = field(default_factory=set)

    def is_due(self, now_s: float) -> bool:
        """Whether it is time for figures."""
        if self._told_s is None:
            self._told_s = now_s
        if now_s - self._told_s < self.every_s:
            return False
        self._told_s = now_s
        return True

    def lines(self, counts: Counts, now_s: float, error: str | None) -> list[str]:
        """What is to be said now."""
        lines = [f"warning: {what}" for what in counts.troubles if what not in self._heard]
        self._heard.update(counts.troubles)
        for broker, here in counts.brokers.items():
            if here not in self._heard:
                self._heard.add(here)
                lines.append(f"{here} leads to broker {broker}")
        if error is not None and error not in self._heard:
            self._heard.add(error)
            lines.append(f"warning: nothing is written down any more, traffic goes on: {error}")
        if self.is_due(now_s):
            if (lost := counts.dropped - self._told.dropped) > 0:
                lines.append(f"warning: {lost:,} pairs were dropped")
            if counts.pairs != self._told.pairs:
                lines.append(counts.shown())
            self._told = counts
        return lines
