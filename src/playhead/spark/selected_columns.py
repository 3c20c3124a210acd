"""What the selected expressions make of a record, as columns of Spark."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from playhead.transform.path_sql import as_json
from playhead.transform.transform import Output

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
HEADERS = "array<struct<name string, value binary>>"
HIDDEN = "__"
"""Before the names of columns that no expression of a user sees."""
DOCUMENT = f"{HIDDEN}document_"
"""Before the name of a key or value whose parsed document a column has."""
_CREATE_TIME = 0


def columns_of(scope: "DataFrame", outputs: Sequence[Output]) -> "dict[str, Column]":
    """Return the record's columns that the selected expressions replace."""
    from pyspark.sql import functions

    columns = {}
    fields = [output for output in outputs if output.replaces is None]
    if fields:
        # A tombstone deletes a key; with fields in it, it would do the opposite.
        document = functions.to_json(
            functions.struct(*(field_of(output) for output in fields)), JSON
        )
        is_there = functions.col(f"{HIDDEN}value").isNotNull()
        columns["value"] = functions.when(is_there, document).cast("binary")
    for output in outputs:
        if output.replaces is None or output.is_bare:
            continue
        made = functions.expr(output.expression.sql)
        if output.replaces == "timestamp":
            # A record needs a time in a log: without a new one, it keeps its own.
            time_ms = functions.unix_millis(made.cast("timestamp"))
            columns["timestamp_ms"] = functions.coalesce(
                time_ms, functions.col(f"{HIDDEN}timestamp_ms")
            )
            own_type = functions.col(f"{HIDDEN}timestamp_type")
            columns["timestamp_type"] = functions.when(time_ms.isNull(), own_type).otherwise(
                functions.lit(_CREATE_TIME)
            )
        elif output.replaces == "headers":
            columns["headers"] = _as_headers(made, scope.select(made).schema[0].dataType)
        else:
            type_ = scope.select(made).schema[0].dataType
            columns[output.replaces] = _as_bytes(made, type_)
    return columns


def field_of(output: Output) -> "Column":
    from pyspark.sql import functions

    path = output.bare_path
    made = output.expression.sql if path is None else as_json(path, f"{DOCUMENT}{path.column}")
    return functions.expr(made).alias(output.name)


def _as_bytes(made: "Column", type_: "DataType") -> "Column":
    """Return text as UTF-8, bytes unchanged, times and structures as JSON, other values as text."""
    from pyspark.sql import functions

    kind = type_.typeName()
    if kind == "binary":
        return made
    if kind in ("array", "map", "struct", "variant"):
        return functions.to_json(made, JSON).cast("binary")
    if kind in ("timestamp", "timestamp_ntz"):
        form = JSON["timestampFormat" if kind == "timestamp" else "timestampNTZFormat"]
        return functions.date_format(made, form).cast("binary")
    return made.cast("string").cast("binary")


def _as_headers(made: "Column", type_: "DataType") -> "Column":
    """Return pairs of a name and a text or bytes; a pair without a name is left out."""
    from pyspark.sql import functions
    from pyspark.sql.types import ArrayType, StructType

    if not isinstance(type_, ArrayType) or not isinstance(type_.elementType, StructType):
        raise TypeError(f"headers: found {type_.simpleString()}, needed {HEADERS}")
    name, value = type_.elementType.names
    pairs = functions.transform(
        made,
        lambda pair: functions.struct(
            pair[name].cast("string").alias("name"), pair[value].cast("binary").alias("value")
        ),
    )
    return functions.filter(pairs, lambda pair: pair["name"].isNotNull())
