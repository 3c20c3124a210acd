"""What became of everything that arrived, as one sum that has to come out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one moment. A datagram is one record, or as many as it has lines."""

    datagrams: int = 0
    bytes: int = 0
    """Of the datagrams, as far as they were read."""
    empty: int = 0
    """Datagrams without a line, and so without a record."""
    truncated: int = 0
    """Datagrams longer than was allowed; each is a record that was refused, or a dead letter."""
    records: int = 0
    delivered: int = 0
    """Records that the topic has, as far as the acks tell."""
    dead_lettered: int = 0
    waiting: int = 0
    """Records on their way to the broker."""
    refused: int = 0
    """Records that were not what was asked for, and were left out."""
    dropped: int = 0
    """Records that found the memory full."""
    failed: int = 0
    """Records that the broker would not have, or did not confirm in time."""
    strangers: int = 0
    """Datagrams from elsewhere than is allowed; they are no records, and nothing is lost with them."""
    kernel_drops: int | None = None
    """Datagrams that found the kernel's buffer full, and never arrived; None where nobody knows."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """How many of each kind were not what was asked for, refused or dead letters."""

    @property
    def adds_up(self) -> bool:
        """The law: whatever arrived is in exactly one place."""
        arrived = self.delivered + self.dead_lettered + self.waiting
        return self.records == arrived + self.refused + self.dropped + self.failed

    @property
    def lost(self) -> int:
        """What reached the port and is in no topic."""
        return self.refused + self.dropped + self.failed + (self.kernel_drops or 0)

    def as_document(self) -> dict[str, Any]:
        return asdict(self) | {"lost": self.lost, "adds_up": self.adds_up}

    def shown(self) -> str:
        """The sum in words; what is nothing is left out, but for the first."""
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
        strangers = f"; {self.strangers:,} from strangers" if self.strangers else ""
        return f"{sum_}; {self.shown_kernel_drops()}{strangers}"

    def shown_kernel_drops(self) -> str:
        if self.kernel_drops is None:
            return "what the kernel dropped is not known here"
        return f"dropped by the kernel: {self.kernel_drops:,}"
