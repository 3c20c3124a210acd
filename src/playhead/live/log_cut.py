"""Notices that a log lost records which a pipeline has read, by the epochs of the partitions' leaders.

After an unclean election, or when a broker's disk was restored, other records are at offsets that were read,
and the pipeline would leave them out. Each election raises the epoch, and the log tells where the records of
an epoch end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from playhead.errors import Refused
from playhead.source import Bounds, KeepsEpochs, TopicPartition, bounds_reaching

ReadUpTo = Mapping[TopicPartition, tuple[int, int]]
"""By partition: an offset up to which it was read, and the epoch that its leader had afterwards."""


class ReadLogWasCut(Refused):
    """The log lost records that the pipeline has read."""

    def __init__(self, name: str, cut: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self.name, self.cut = name, dict(cut)
        self.told = ", ".join(
            f"{topic}:{number}:{end}-{read}" for (topic, number), (end, read) in sorted(cut.items())
        )
        super().__init__(
            f"pipeline {name} cannot continue: the log lost records after it had read them, as after an "
            "unclean leader election or in a cluster that was restored from a copy, and may have others at "
            f"their offsets: {self.told}",
            hint="`playhead verify` compares the target with the log; --accept-loss continues after these "
            "offsets, without the other records",
        )


class Log(KeepsEpochs, Protocol):
    """A source that tells the epochs of its leaders."""

    def bounds(self) -> Mapping[TopicPartition, Bounds]: ...

    def leader_epochs(self) -> Mapping[TopicPartition, int]:
        """Return the epoch of each partition's leader; nothing for a partition of which that is unknown."""
        ...


@dataclass
class ReadLog:
    """Up to where a log was read, from one start of a pipeline to the next; `keep` stores it."""

    name: str
    log: Log
    read: ReadUpTo
    keep: Callable[[ReadUpTo], None]

    def confirm(self, at: Mapping[TopicPartition, int]) -> None:
        """Refuse a log that lost records before these offsets, up to which it is read now."""
        epochs = self.log.leader_epochs()
        # While its leader stays, a log loses nothing.
        elected = {
            place: epoch
            for place, (_, epoch) in self.read.items()
            if place in at and epochs.get(place, epoch) != epoch
        }
        ends = self._confirmed(elected, at) if elected else {}
        read = {place: (at[place], epoch) for place, epoch in epochs.items() if place in at}
        # A leader that does not tell is asked again, about the offset of before.
        read |= {place: self.read[place] for place in elected if place not in ends}
        if read != self.read:
            self.read = read
            self.keep(read)

    def forget(self) -> None:
        """Forget what was read before: its loss is accepted."""
        self.read = {}

    def _confirmed(
        self, elected: Mapping[TopicPartition, int], at: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Return where the records of earlier leaders end, if nothing that was read is behind that."""
        ends = self.log.ends_of_epochs(elected)
        # Of what was read since, the new leader's log must be long enough.
        needed = {place: at[place] for place in elected}
        held = bounds_reaching(self.log.bounds, needed)
        cut = {
            place: (held[place].high_watermark, end)
            for place, end in needed.items()
            if place in held and held[place].high_watermark < end
        }
        for place, end in ends.items():
            # The target may have been restored: what it lost is read again.
            read = min(self.read[place][0], at[place])
            if end < read:
                cut[place] = (end, read)
        if cut:
            raise ReadLogWasCut(self.name, cut)
        return ends
