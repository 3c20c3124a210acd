"""The status lines of an endless run: losses at once, figures now and then, nothing twice."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from playhead.errors import PlayheadError
from playhead.grammar.size import show_size
from playhead.ingest.counts import Counts

_SILENCE_S = 2.0
_OVER_AFTER_S = 1.0


class NotAllArrived(PlayheadError):
    """Datagrams reached the port whose records are in no topic."""

    def __init__(self, counts: Counts, *, reasons: list[str]) -> None:
        self.counts, self.reasons = counts, reasons
        parts = {
            f"{counts.kernel_drops or 0:,} dropped by the kernel": counts.kernel_drops,
            f"{counts.dropped:,} dropped because the memory was full": counts.dropped,
            f"{counts.refused:,} refused ({_kinds(counts)})": counts.refused,
            f"{counts.failed:,} failed ({'; '.join(reasons)})": counts.failed,
        }
        said = ", ".join(text for text, count in parts.items() if count)
        super().__init__(
            f"{counts.lost:,} records reached the port but are in no topic: {said}",
            hint=_way_out(counts),
        )


def _kinds(counts: Counts) -> str:
    return ", ".join(f"{kind}: {count:,}" for kind, count in counts.refusals.items())


def _way_out(counts: Counts) -> str | None:
    if counts.kernel_drops:
        return "raise --receive-buffer to bridge longer pauses (sysctl net.core.rmem_max limits it)"
    if counts.dropped:
        return "raise --max-memory to bridge a longer outage of the broker"
    if counts.refused:
        return "keep such records with --on-bad dlq:TOPIC"
    return None


@dataclass(frozen=True, slots=True)
class ProducerStatus:
    """What the client reports: the state of its brokers, and why records failed."""

    trouble: str | None = None
    reasons: Sequence[str] = ()


@dataclass(slots=True)
class StatusFigures:
    """The counts as JSON for programs, at a fixed interval."""

    every_s: float
    _told_s: float | None = None

    def lines(
        self, counts: Counts, now_s: float, _: ProducerStatus = ProducerStatus()
    ) -> list[str]:
        if self._told_s is None:
            self._told_s = now_s
        if now_s - self._told_s < self.every_s:
            return []
        self._told_s = now_s
        return [json.dumps(counts.as_document())]


@dataclass(slots=True)
class StatusLines:
    """Returns status lines; called a few times a second with the present counts."""

    every_s: float
    memory_bytes: int
    buffer_bytes: int
    _then: Counts = field(default_factory=Counts)
    """The counts at the last call."""
    _told: Counts = field(default_factory=Counts)
    """The counts when the figures were last printed."""
    _told_s: float | None = None
    _moved_s: float = 0.0
    """When the broker last confirmed something, or had nothing to confirm."""
    _dropping: tuple[float, float, int] | None = None
    """When the drops began, when they last continued, and the number dropped before."""
    _is_silent: bool = False

    def lines(
        self, counts: Counts, now_s: float, heard: ProducerStatus = ProducerStatus()
    ) -> list[str]:
        """Return the lines to print now."""
        if self._told_s is None:
            self._told_s = self._moved_s = now_s
        found = [
            *self._of_drops(counts, now_s),
            *self._of_silence(counts, now_s, heard.trouble),
            *self._of_figures(counts, now_s, heard.reasons),
        ]
        self._then = counts
        return found

    def _of_drops(self, counts: Counts, now_s: float) -> Iterator[str]:
        if counts.dropped > self._then.dropped:
            if self._dropping is None:
                yield (
                    f"warning: {show_size(self.memory_bytes)} of memory are full, "
                    f"{counts.waiting:,} records wait: new records are dropped"
                )
            began_s, _, before = self._dropping or (now_s, now_s, self._then.dropped)
            self._dropping = (began_s, now_s, before)
        elif self._dropping is not None and now_s - self._dropping[1] >= _OVER_AFTER_S:
            began_s, last_s, before = self._dropping
            yield (
                f"memory is available again: {counts.dropped - before:,} records were "
                f"dropped in {last_s - began_s:.1f} s"
            )
            self._dropping = None

    def _of_silence(self, counts: Counts, now_s: float, trouble: str | None) -> Iterator[str]:
        confirmed = counts.delivered + counts.dead_lettered
        moves = confirmed > self._then.delivered + self._then.dead_lettered
        silent_s = now_s - self._moved_s
        if moves or not counts.waiting:
            if self._is_silent:
                yield f"the broker confirms records again, after {silent_s:.1f} s"
            self._is_silent, self._moved_s = False, now_s
        elif silent_s >= _SILENCE_S and not self._is_silent:
            reason = f": {trouble}" if trouble else ""
            yield (
                f"warning: the broker has confirmed nothing for {silent_s:.0f} s, "
                f"{counts.waiting:,} records wait{reason}"
            )
            self._is_silent = True

    def _of_figures(self, counts: Counts, now_s: float, reasons: Sequence[str]) -> Iterator[str]:
        assert self._told_s is not None  # noqa: S101  set by the caller
        took_s = now_s - self._told_s
        if took_s < self.every_s:
            return
        before, self._told, self._told_s = self._told, counts, now_s
        yield from self._of_losses(before, counts, reasons)
        if counts != before:
            rate = (counts.datagrams - before.datagrams) / took_s
            yield f"{rate:,.0f} datagrams/s; {counts.shown()}"

    def _of_losses(self, before: Counts, counts: Counts, reasons: Sequence[str]) -> Iterator[str]:
        if (lost := (counts.kernel_drops or 0) - (before.kernel_drops or 0)) > 0:
            room = show_size(self.buffer_bytes)
            yield f"warning: the kernel dropped {lost:,} datagrams, its buffer of {room} being full"
        if (lost := counts.failed - before.failed) > 0:
            yield f"warning: {lost:,} records failed ({'; '.join(reasons)})"
        if (lost := counts.refused - before.refused) > 0:
            yield f"warning: {lost:,} records were refused ({_kinds(counts)} so far)"
