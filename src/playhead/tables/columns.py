"""The columns that every table may have for a record itself, beside those for the fields of its value."""

TOPIC, PARTITION, OFFSET = "_topic", "_partition", "_offset"
TIMESTAMP, KEY, HEADERS = "_timestamp", "_key", "_headers"
PLACE = (TOPIC, PARTITION, OFFSET)
METADATA = (*PLACE, TIMESTAMP, KEY, HEADERS)
EXTRA = "_extra"
"""The default name of the column for all fields without a column of their own."""
WHOLE = ("_value", "value")
"""The column that takes the whole value."""
