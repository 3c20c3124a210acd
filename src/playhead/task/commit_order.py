"""The order in which the slices of one partition may be committed, for targets that depend on it.

A slice may be committed if everything planned before it is committed, and nothing after it. A task
that was believed dead, or was started twice, comes too early or too late and is refused.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from playhead.account import Account
from playhead.errors import Refused
from playhead.ledger import Entry, remaining
from playhead.record import Slice
from playhead.source import TopicPartition
from playhead.target import AlreadyCommitted, OutOfOrder


class OrderBroken(Refused):
    """A ledger has later offsets of a partition without earlier ones; those must not be written last."""

    def __init__(self, replay_id: str, *, lacking: Slice, committed: Slice) -> None:
        self.replay_id, self.lacking, self.committed = replay_id, lacking, committed
        super().__init__(
            f"replay {replay_id} has committed {committed} but not {lacking}, which comes "
            "before it: an earlier version of Playhead did not keep the order that its "
            "conflict rule needs, so that rows may be older than they should be",
            hint="replay the whole span under another --id: with --on-conflict update or "
            "newer into the same table, with ignore or error into a table without these "
            "rows",
        )


def refuse_wrong_order(
    replay_id: str, found: Slice, *, follows: int | None, last: Slice | None
) -> None:
    """Refuse a slice out of order; `last` is the last slice of its partition in the ledger."""
    if last is not None and found.overlaps(last):
        raise AlreadyCommitted(replay_id, found=found, committed=last)
    if last is not None and found < last:
        raise OutOfOrder(replay_id, found=found, committed=last)
    if follows is not None and (last is None or last.to_offset < follows):
        raise OutOfOrder(replay_id, found=found, committed=last, needed=follows)


def refuse_wrong_order_among(replay_id: str, account: Account, entries: Iterable[Entry]) -> None:
    """Refuse a slice out of order, given all ledger entries of the replay."""
    found = account.slice
    slices = [entry.slice for entry in entries]
    last = max((each for each in slices if each.place == found.place), default=None)
    refuse_wrong_order(replay_id, found, follows=account.follows, last=last)


def refuse_broken_order(
    replay_id: str, planned: Iterable[Slice], committed: Sequence[Slice]
) -> None:
    """Refuse a ledger in which uncommitted offsets precede committed ones."""
    last: dict[TopicPartition, Slice] = {}
    for slice_ in sorted(committed):
        last[slice_.topic, slice_.partition] = slice_
    for slice_ in remaining(planned, committed):
        latest = last.get((slice_.topic, slice_.partition))
        if latest is not None and slice_ < latest:
            raise OrderBroken(replay_id, lacking=slice_, committed=latest)


def follows_in(planned: Iterable[Slice]) -> Callable[[Slice], int | None]:
    """Return for each planned slice where the planned offsets before it end; None before the first."""
    runs: dict[TopicPartition, list[Slice]] = {}
    for slice_ in sorted(planned):
        runs.setdefault((slice_.topic, slice_.partition), []).append(slice_)
    starts = {place: [run.from_offset for run in held] for place, held in runs.items()}

    def follows(slice_: Slice) -> int | None:
        place = slice_.topic, slice_.partition
        number = bisect_right(starts.get(place, ()), slice_.from_offset) - 1
        if number < 0:
            return None
        if runs[place][number].from_offset < slice_.from_offset:
            return slice_.from_offset
        return runs[place][number - 1].to_offset if number else None

    return follows
