"""Fills the column that takes whole values, and finds those that it does not keep exactly."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from playhead.postgres.rows.altered_values import alterations_of_text, may_alter
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.metadata_columns import bytes_text
from playhead.postgres.rows.text_format import Bad, checked_for


def whole_column(
    each: Field, held: Sequence[Any], live: Sequence[int], refuse: Callable[[int, Bad], None]
) -> Any:
    """Return the column of these values; `live` has the indexes of their records."""
    if each.column.base == "bytea":
        return pa.array(held, pa.binary())
    texts: list[str | None] = []
    for i, value in zip(live, held, strict=True):
        try:
            texts.append(checked_for(each.column, bytes_text(value, "the value"), each.name))
        except Bad as bad:
            refuse(i, bad)
            texts.append(None)
    return pa.array(texts, pa.string())


def altered_texts(each: Field, column: Any) -> Iterator[set[str]]:
    """Yield what happens to each text of the column; nothing if the column keeps all of them."""
    if may_alter(each.column):
        for text in column.to_pylist():
            yield set() if text is None else alterations_of_text(each.column, text)
