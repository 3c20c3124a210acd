"""Replays a whole source in this thread, without an engine."""

from playhead.ledger import remaining
from playhead.record import Slice
from playhead.source import Source
from playhead.target import Target
from playhead.task.job import Job
from playhead.task.play import play
from playhead.task.slicer import Filter, Limits


def replay(
    source: Source, target: Target, *, replay_id: str = "replay-1", slice_records: int = 2
) -> None:
    """Copy the slices that are not in the ledger of `target`; a second call resumes the replay.

    Slices are small, so that a fault in the middle of a short list happens after some commits.
    """
    held = [
        Slice(topic, partition, bounds.earliest, bounds.stable_end)
        for (topic, partition), bounds in source.bounds().items()
        if bounds.earliest < bounds.stable_end
    ]
    left = remaining(held, [entry.slice for entry in target.entries(replay_id)])
    if left:
        tasks = ((tuple(left),),)
        play(Job(replay_id, source, target, tasks, Filter(), limits=Limits(slice_records)), 0)
