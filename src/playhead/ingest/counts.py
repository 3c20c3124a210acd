"""The outcome of everything that arrived, as counts with a fixed sum."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts at one moment. A datagram is one record, or one for each of its lines."""

    datagrams: int = 0
    bytes: int = 0
    """The bytes of the datagrams that were read."""
    empty: int = 0
    """Datagrams without a line, and so without a record."""
    truncated: int = 0
    """Datagrams that were too long; each is one refused record or dead letter."""
    records: int = 0
    delivered: int = 0
    """Records that the topic has, as far as the acks guarantee."""
    dead_lettered: int = 0
    waiting: int = 0
    """Records on their way to the broker."""
    refused: int = 0
    """Records without the requested key or time, which were left out."""
    dropped: int = 0
    """Records that arrived when the memory was full."""
    failed: int = 0
    """Records that the broker refused, or did not confirm in time."""
    strangers: int = 0
    """Datagrams from addresses that are not allowed; they are not counted as records or losses."""
    kernel_drops: int | None = None
    """Datagrams that the kernel dropped because its buffer was full; None if unknown."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """How many refused records and dead letters there are of each kind."""

    @property
    def adds_up(self) -> bool:
        """Return whether every record is in exactly one count."""
        arrived = self.delivered + self.dead_lettered + self.waiting
        return self.records == arrived + self.refused + self.dropped + self.failed

    @property
    def lost(self) -> int:
        """What reached the port and is in no topic."""
        return self.refused + self.dropped + self.failed + (self.kernel_drops or 0)

    def as_document(self) -> dict[str, Any]:
        return asdict(self) | {"lost": self.lost, "adds_up": self.adds_up}

    def shown(self) -> str:
        """The sum in words; zero counts are left out, except the first."""
        told = {
            "on their way": self.waiting,
            "dead letters": self.dead_lettered,
            "refused": self.refused,
            "dropped (memory full)": self.dropped,
            "failed": self.failed,
        }
        parts = [f"{self.delivered:,} delivered"]
        parts += [f"{count:,} {what}" for what, count in told.items() if count]
        sum_ = f"{self.records:,} records = {' + '.join(parts)}"
        strangers = (
            f"; {self.strangers:,} from addresses that are not allowed" if self.strangers else ""
        )
        return f"{sum_}; {self.shown_kernel_drops()}{strangers}"

    def shown_kernel_drops(self) -> str:
        if self.kernel_drops is None:
            return "the kernel does not report its drops here"
        return f"dropped by the kernel: {self.kernel_drops:,}"
