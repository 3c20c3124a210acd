"""Converts records to Arrow rows for Spark's expressions, and back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, pairwise
from typing import Any

import pyarrow as pa

from playhead.record import Headers
from playhead.records import UNSUMMED, Records
from playhead.task.slicer import FILTERED, KEPT, OUTSIDE

SCHEMA = (
    "slice int, is_end boolean, topic string, partition int, offset long, timestamp_ms long, "
    "timestamp_type int, key binary, value binary, "
    "content_sum long, headers array<struct<name: string, value: binary>>"
)
_HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
_ARROW = pa.schema(
    [
        ("slice", pa.int32()),
        ("is_end", pa.bool_()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("content_sum", pa.int64()),
        ("headers", _HEADERS),
    ]
)
RAW, TROUBLE = "raw", "trouble"
# With decoded values in `value`, their bytes and the reason of a failure travel along.
DECODED_SCHEMA = f"{SCHEMA}, {RAW} binary, {TROUBLE} string"
_DECODED_ARROW = _ARROW.append(pa.field(RAW, pa.binary())).append(pa.field(TROUBLE, pa.string()))
_BEGIN, _END = 0, 1
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Begin:
    """A slice of the work begins; the work is numbered, because a Spark task does not know which it has."""

    work: int
    number: int


@dataclass(frozen=True, slots=True)
class End:
    """All records of a slice have been sent."""

    number: int


@dataclass(frozen=True, slots=True)
class ArrowRun:
    """Records of a slice, with the verdict on each."""

    records: Records
    verdicts: list[int]


def begin(work: int, number: int, *, is_decoded: bool = False) -> pa.RecordBatch:
    return _control(work, number, _BEGIN, is_decoded)


def end(work: int, number: int, *, is_decoded: bool = False) -> pa.RecordBatch:
    return _control(work, number, _END, is_decoded)


def _control(work: int, number: int, kind: int, is_decoded: bool) -> pa.RecordBatch:
    row = [number, True, "", work, _NO_OFFSET, kind, 0, None, None, UNSUMMED, None]
    schema = _DECODED_ARROW if is_decoded else _ARROW
    row += [None] * (len(schema) - len(row))
    return pa.RecordBatch.from_arrays(
        [pa.array([value], each.type) for value, each in zip(row, schema, strict=True)],
        schema=schema,
    )


def of(records: Records, number: int, verdicts: list[int] | None) -> pa.RecordBatch:
    """Return rows for the records; those outside the span are marked, so that no expression reads
    them.

    So are those that could not be decoded. Those whose fields cannot be selected have trouble only if they are kept.
    """
    count = len(records)
    passing = [verdict == OUTSIDE for verdict in verdicts] if verdicts else [False] * count
    troubles: list[str | None] = [None] * count
    for index, offset in enumerate(records.offsets) if records.undecoded else ():
        if not passing[index] and offset in records.undecoded:
            troubles[index], passing[index] = records.undecoded[offset], True
    for index, offset in enumerate(records.offsets) if records.unselectable else ():
        if not passing[index]:
            troubles[index] = records.unselectable.get(offset)
    columns: list[Any] = [
        pa.repeat(pa.scalar(number, pa.int32()), count),
        passing,
        pa.repeat(pa.scalar(records.topic, pa.string()), count),
        pa.repeat(pa.scalar(records.partition, pa.int32()), count),
        records.offsets,
        records.timestamps_ms,
        records.timestamp_types,
        records.keys,
        records.readable,
        records.content_sums(),
        _headers_in(records.headers),
    ]
    schema = _ARROW
    if records.decoded is not None:
        schema = _DECODED_ARROW
        # Unchanged values need not travel twice.
        is_same = records.decoded is records.values
        columns += [pa.nulls(count, pa.binary()) if is_same else records.values, troubles]
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, each.type)
        for values, each in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers_in(headers: Sequence[Headers]) -> pa.Array:
    """Return headers for Arrow, column by column: a dict for each pair would be the greatest cost."""
    ends = accumulate(map(len, headers), initial=0)
    pairs = [*chain.from_iterable(headers)]
    names = pa.array([name for name, _ in pairs], pa.string())
    values = pa.array([value for _, value in pairs], pa.binary())
    held = pa.StructArray.from_arrays([names, values], fields=list(_HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), held, type=_HEADERS)


def _headers_from(column: Any) -> list[Headers]:
    if column.null_count:
        return [tuple((h["name"], h["value"]) for h in each or ()) for each in column.to_pylist()]
    offsets = column.offsets.to_pylist()
    if offsets[0] == offsets[-1]:
        return [()] * len(column)
    held = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    names, values = (held.field(name).to_pylist() for name in ("name", "value"))
    pairs = [*zip(names, values, strict=True)]
    first = offsets[0]
    return [tuple(pairs[start - first : stop - first]) for start, stop in pairwise(offsets)]


def read(rows: pa.RecordBatch) -> Iterator[Begin | End | ArrowRun]:
    """Read what `begin`, `of` and `end` made, after Spark has regrouped and transformed it."""
    columns = _columns(rows)
    is_control = [
        is_end and offset == _NO_OFFSET
        for is_end, offset in zip(columns["is_end"], columns["offset"], strict=True)
    ]
    start = 0
    for control, same in groupby(is_control):
        stop = start + sum(1 for _ in same)
        if control:
            yield from (_control_at(columns, index) for index in range(start, stop))
        else:
            # Control rows separate slices, so these are rows of one partition.
            yield _run_of(columns, start, stop)
        start = stop


def runs(rows: pa.RecordBatch) -> Iterator[ArrowRun]:
    """Return the records of rows without control rows, partition by partition."""
    columns = _columns(rows)
    start = 0
    for _, same in groupby(zip(columns["topic"], columns["partition"], strict=True)):
        stop = start + sum(1 for _ in same)
        yield _run_of(columns, start, stop)
        start = stop


def _columns(rows: pa.RecordBatch) -> dict[str, list[Any]]:
    return {
        name: _headers_from(rows.column(name))
        if name == "headers"
        else rows.column(name).to_pylist()
        for name in rows.schema.names
    }


def _control_at(columns: dict[str, list[Any]], index: int) -> Begin | End:
    number = columns["slice"][index]
    if columns["timestamp_ms"][index] == _BEGIN:
        return Begin(columns["partition"][index], number)
    return End(number)


def _run_of(columns: dict[str, list[Any]], start: int, stop: int) -> ArrowRun:
    cut = {name: values[start:stop] for name, values in columns.items()}
    records = Records(
        cut["topic"][0],
        cut["partition"][0],
        cut["offset"],
        cut["timestamp_ms"],
        cut["timestamp_type"],
        cut["key"],
        cut["value"],
        cut["headers"],
    )
    if "keep" in cut:
        # The buffers may be released.
        records.sums = [UNSUMMED if each is None else each for each in cut["content_sum"]]
    if RAW in cut:
        _give_back(records, cut[RAW], cut[TROUBLE])
    kept = cut.get("keep") or [True] * len(records)
    verdicts = [
        OUTSIDE if outside else KEPT if keep else FILTERED
        for outside, keep in zip(cut["is_end"], kept, strict=True)
    ]
    for index, offset in enumerate(records.offsets) if records.undecoded else ():
        if offset in records.undecoded:
            verdicts[index] = KEPT
    return ArrowRun(records, verdicts)


def _give_back(
    records: Records, raw: Sequence[bytes | None], troubles: Sequence[str | None]
) -> None:
    """Restore the raw bytes beside the decoded values; a selected value has no raw bytes."""
    records.decoded = records.values
    records.values = [
        value if held is None else held for value, held in zip(records.decoded, raw, strict=True)
    ]
    records.undecoded = {
        at: trouble
        for at, trouble in zip(records.offsets, troubles, strict=True)
        if trouble is not None
    }
