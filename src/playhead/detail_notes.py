"""Says in a proof what the details of its entries count beside the sums."""

from collections.abc import Mapping

from playhead.ledger import ALSO_BURIED, ALSO_REMOVED, NOT_KEPT
from playhead.note import Note

_BURIED = (
    "records in the dead-letter topic were also written: their first attempt failed, a later one succeeded; a "
    "redrive would write them a second time"
)
_LEFT_OUT = (
    "filtered records were written but not kept by the target: a trigger or a rule left them out"
)
_REMOVED = (
    "rows that were there before, from earlier slices or from others, were removed while the replay wrote: by "
    "triggers, rules or foreign keys of the target; records that count as written may have no row now: playhead "
    "verify reads them"
)
_TEXTS = {ALSO_BURIED: _BURIED, NOT_KEPT: _LEFT_OUT, ALSO_REMOVED: _REMOVED}


def notes_of_details(sums: Mapping[str, int]) -> list[Note]:
    """Return a note for each of these details that is not zero."""
    return [
        Note(name.replace("_", "-"), f"{sums[name]:,} {text}")
        for name, text in _TEXTS.items()
        if sums.get(name)
    ]
