"""What every system that records go to must do: commit slices with their ledger entry."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from playhead.errors import Refused
from playhead.record import Record, Slice


class AlreadyCommitted(Refused):
    """A slice overlaps one that the same replay has committed; nothing was written."""

    def __init__(self, replay_id: str, *, found: Slice, committed: Slice) -> None:
        self.replay_id, self.found, self.committed = replay_id, found, committed
        super().__init__(
            f"replay {replay_id} cannot commit {found}: it has committed {committed}",
            hint="another run of this replay is, or was, at work; "
            f"`playhead resume {replay_id}` goes on from the ledger",
        )


class Target(Protocol):
    """Where records go, and with them, in the same transaction, the ledger of what was committed.

    The docstring of an implementation must state three things, each by its name:

    - Ordering: what it promises about the order of the records within a slice, and across slices.
    - Idempotence: what happens when records are committed that the target already has.
    - Delivery: its guarantee, and what that guarantee rests on.
    """

    def committed(self, replay_id: str, /) -> Sequence[Slice]:
        """What this replay has committed, as the target itself remembers it, in order.

        The answer covers exactly the committed offsets; neighbouring slices may have been joined.
        A replay that nobody knows has committed nothing.
        """
        ...

    def commit(self, replay_id: str, slice_: Slice, records: Iterable[Record], /) -> None:
        """Make the records and the slice's ledger entry visible together, or not at all.

        `records` are records of the slice in the order of their offsets, or none at all, which
        is progress too. While they are drawn nothing is visible, and an error that they raise
        leaves nothing behind. A slice that overlaps a committed one of the same replay is
        refused with `AlreadyCommitted`. After any other error the outcome may be unknown: the
        ledger knows it.
        """
        ...
