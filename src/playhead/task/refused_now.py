"""Counts the records that a target refuses at a comparison, but not when they were written."""

from collections.abc import Collection
from dataclasses import replace

from playhead.ledger import Entry
from playhead.target import Difference, SliceComparison
from playhead.task.dead_letter_check import named_refused
from playhead.task.tally import SHOWN

_OF_RUN = "it was written, but the table refuses it now: its row cannot be compared"
_OF_SPAN = "it is refused: the table cannot take it"


def with_refused(
    found: SliceComparison, entry: Entry, undecoded: Collection[int] = ()
) -> SliceComparison:
    """Return the comparison with these records as unknown ones; their rows are as unknown.

    An entry may list only some of the records that were refused, but counts all of them. Without a run,
    nothing says that a record was refused before.
    """
    listed = named_refused(entry)
    refused = sorted({*found.refused, *undecoded} - listed)
    since = refused[max(0, entry.skipped + entry.dead - len(listed)) :]
    if not since:
        return replace(found, refused=())
    place, text = entry.slice.place, _OF_RUN if entry.read else _OF_SPAN
    shown = [Difference("unknown", *place, offset, text) for offset in since[:SHOWN]]
    return replace(
        found,
        refused=(),
        expected=found.expected + len(since),
        unknown=found.unknown + len(since),
        differences=(*found.differences, *shown)[:SHOWN],
    )
