"""The columns that every table may have for a record itself, beside those for the fields of its value."""

from typing import Any

from playhead.grammar.instant import show_ms
from playhead.records import Records

TOPIC, PARTITION, OFFSET = "_topic", "_partition", "_offset"
TIMESTAMP, KEY, HEADERS = "_timestamp", "_key", "_headers"
PLACE = (TOPIC, PARTITION, OFFSET)
METADATA = (*PLACE, TIMESTAMP, KEY, HEADERS)
EXTRA = "_extra"
"""The default name of the column for all fields without a column of their own."""
WHOLE = ("_value", "value")
"""The column that takes the whole value."""


def preview_of(records: Records) -> list[dict[str, Any]]:
    """Return rows, for people, that show records before it is known which columns take their fields."""
    values = zip(records.offsets, records.timestamps_ms, records.readable, strict=True)
    return [
        {
            TOPIC: records.topic,
            PARTITION: records.partition,
            OFFSET: offset,
            TIMESTAMP: None if time_ms < 0 else show_ms(time_ms),
            "value": None if value is None else value.decode("utf-8", "replace"),
        }
        for offset, time_ms, value in values
    ]
