"""Parses a record's key into key columns, for tombstones."""

from collections.abc import Sequence

from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.metadata_columns import bytes_text
from playhead.postgres.rows.python_json import Documents, read_json
from playhead.postgres.rows.text_format import Bad, text_for


def key_texts(held: bytes | None, key: Sequence[Field]) -> dict[str, str]:
    """Return the key's texts for the key columns: fields of a JSON object, or the whole key for one column."""
    if held is None:
        raise Bad("no_key", "a tombstone without a key does not identify a row")
    try:
        document = read_json(held, "the key")
    except Bad:
        document = None
    if isinstance(document, dict):
        found = Documents(key).texts(document)
    elif len(key) == 1:
        is_scalar = document is not None and not isinstance(document, list)
        whole = document if is_scalar else bytes_text(held, "the key")
        found = {key[0].name: text_for(key[0].column, whole)}
    else:
        found = {}
    missing = [each.name for each in key if each.name not in found]
    if missing:
        raise Bad("no_key", f"the key of a tombstone has nothing for column {missing[0]}")
    return found
