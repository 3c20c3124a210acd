"""A ledger that went back while a pipeline ran: its data went back with it, or it alone has lost entries."""

from collections.abc import Mapping

from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.inventory import Inventory
from playhead.live.pipeline_spec import PipelineSpec
from playhead.record import Slice
from playhead.source import TopicPartition
from playhead.tables.columns import TOPIC
from playhead.target import Target


class OnlyEntriesLost(Refused):
    """The ledger lost entries of a pipeline, and the table still has their rows."""

    def __init__(self, name: str, *, rows: int, lost: str) -> None:
        self.name, self.rows = name, rows
        super().__init__(
            f"the ledger of pipeline {name} lost entries, but the table still has {rows:,} rows of {lost}: "
            "they would be written again, and the table has no rule for conflicts",
            hint="restore the ledger, or delete these rows, and start the pipeline again",
        )


class SecondRowsUnknown(Refused):
    """The ledger lost entries of a pipeline, and the table does not tell whether it has their rows."""

    def __init__(self, name: str, *, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(
            f"the ledger of pipeline {name} lost entries, and it is unknown whether the table still has their "
            f"rows: {reason}",
            hint="give the table an index on _partition and _offset, or the user more time (statement_timeout); "
            "--on-conflict makes rows that come twice harmless",
        )


def refuse_second_rows(
    wish: PipelineSpec,
    target: Target,
    committed: Mapping[TopicPartition, int],
    again: Mapping[TopicPartition, int],
) -> None:
    """Refuse to read again what was committed, if the table would get a second row of its records."""
    lost = [
        Slice(*place, again[place], end)
        for place, end in sorted(committed.items())
        if again.get(place, end) < end
    ]
    topics = sorted({each.topic for each in lost})
    has_rule = wish.request.spec.table.on_conflict is not None
    if not lost or has_rule or not isinstance(target, Inventory) or not target.has_offsets(topics):
        return
    if not target.columns_there(topics, [TOPIC]):
        return  # Rows of another topic have the same offsets.
    try:
        rows = target.held_offsets(lost).rows
    except Unavailable:
        raise
    except PlayheadError:
        return  # A user without the right to read the table cannot know.
    if rows:
        raise OnlyEntriesLost(wish.name, rows=rows, lost=", ".join(map(str, lost[:3])))
