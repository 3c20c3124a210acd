"""Parses a record's key into key columns, for tombstones."""

from collections.abc import Sequence
from typing import Final

from playhead.errors import Refused
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.metadata_columns import bytes_text, text_of_own
from playhead.postgres.rows.python_json import Documents, read_json
from playhead.postgres.rows.text_format import Bad, text_for
from playhead.record import Record
from playhead.tables.columns import HEADERS, METADATA, OFFSET, TIMESTAMP

_OF_ONE_RECORD: Final = (OFFSET, TIMESTAMP, HEADERS)


def refuse_own_place(key: Sequence[str], tombstones: str | None) -> None:
    """Refuse to delete by a column in which a tombstone has something else than the record that it deletes."""
    for name in key:
        if tombstones == "delete" and name in _OF_ONE_RECORD:
            raise Refused(
                f"a tombstone has a {name} of its own, and deletes no row of another record by it",
                hint="use --key with columns that the key of a record names, or --tombstones skip",
            )


def key_texts(record: Record, key: Sequence[Field]) -> dict[str, str]:
    """Return the texts for the key columns: `_topic`, `_partition` and `_key` of the record, the others by its key."""
    own = {each.name: text_of_own(each, record) for each in key if each.name in METADATA}
    return own | _named([each for each in key if each.name not in own], record.key)


def _named(key: Sequence[Field], held: bytes | None) -> dict[str, str]:
    """Return the fields of a JSON object, or the whole key for one column."""
    if not key:
        return {}
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
