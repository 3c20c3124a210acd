"""Records make their way through Arrow rows and back, however Spark regroups them."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.record import Headers
from playhead.records import Records
from playhead.spark import arrow_rows
from playhead.spark.arrow_rows import ArrowRun, Begin, End
from playhead.task.slicer import FILTERED, KEPT, OUTSIDE

body = st.none() | st.binary(max_size=5)
headers = st.lists(st.tuples(st.text(max_size=3), body), max_size=3).map(tuple)


@st.composite
def some(draw: st.DrawFn, partition: int = 3) -> Records:
    offsets = sorted(draw(st.sets(st.integers(0, 2**62), max_size=8)))
    column = lambda each: [draw(each) for _ in offsets]  # noqa: E731
    return Records(
        "laps",
        partition,
        offsets,
        column(st.integers(-(2**63), 2**63 - 1)),
        column(st.sampled_from([-1, 0, 1])),
        column(body),
        column(body),
        column(headers),
    )


def verdicts_for(draw: st.DrawFn, records: Records) -> list[int] | None:
    some = st.lists(st.sampled_from([KEPT, OUTSIDE]), min_size=len(records), max_size=len(records))
    return draw(st.none() | some)


def joined(runs: list[ArrowRun]) -> tuple[Records, list[int]]:
    whole, verdicts = Records("laps", 3), []
    for run in runs:
        for name in ("offsets", "timestamps_ms", "timestamp_types", "keys", "values", "headers"):
            getattr(whole, name).extend(getattr(run.records, name))
        verdicts += run.verdicts
    return whole, verdicts


def test_the_schema_is_told_to_spark_as_arrow_has_it():
    """Two spellings of one thing."""
    names = {
        "int32": "int",
        "bool": "boolean",
        "int64": "long",
        "string": "string",
        "binary": "binary",
    }
    said = dict(
        each.split(" ", 1) for each in arrow_rows.SCHEMA.replace(": ", ":").split(", ")[:-1]
    )
    for field in arrow_rows.begin(0, 0).schema:
        if field.name != "headers":
            assert said[field.name] == names[str(field.type)]
    assert arrow_rows.SCHEMA.endswith("headers array<struct<name: string, value: binary>>")
    last = list(arrow_rows.end(0, 0, is_decoded=True).schema)[-2:]
    more = [f"{each.name} {names[str(each.type)]}" for each in last]
    assert ", ".join([arrow_rows.SCHEMA, *more]) == arrow_rows.DECODED_SCHEMA


@given(st.data())
def test_records_come_back_as_they_were(data):
    records = data.draw(some())
    verdicts = verdicts_for(data.draw, records)
    found = list(arrow_rows.read(arrow_rows.of(records, 7, verdicts)))
    if not len(records):
        assert found == []
        return
    assert found == [ArrowRun(records, verdicts or [KEPT] * len(records))]


@st.composite
def decoded(draw: st.DrawFn) -> Records:
    """Some of them with what they mean, some with why nobody knows it, and tombstones."""
    records = draw(some())
    live = [
        at for at, value in zip(records.offsets, records.values, strict=True) if value is not None
    ]
    bad = draw(st.dictionaries(st.sampled_from(live), st.text(max_size=3))) if live else {}
    meant = [
        None if value is None or at in bad else draw(st.binary(max_size=5))
        for at, value in zip(records.offsets, records.values, strict=True)
    ]
    return replace(records, decoded=meant, undecoded=bad)


@given(st.data())
def test_what_was_decoded_comes_back_beside_its_bytes(data):
    """Of what cannot be decoded and lies outside, nobody need know why."""
    records = data.draw(decoded())
    verdicts = verdicts_for(data.draw, records) or [KEPT] * len(records)
    found = list(arrow_rows.read(arrow_rows.of(records, 7, verdicts)))
    outside = {at for at, v in zip(records.offsets, verdicts, strict=True) if v == OUTSIDE}
    inside = {at: why for at, why in records.undecoded.items() if at not in outside}
    assert found == (
        [ArrowRun(replace(records, undecoded=inside), verdicts)] if len(records) else []
    )


def test_a_record_that_cannot_be_decoded_is_neither_filtered_nor_outside():
    records = replace(three(), decoded=[b"1", None, None], undecoded={2: "why", 3: "so"})
    part = kept(arrow_rows.of(records, 0, [KEPT, KEPT, OUTSIDE]), [False, True, True])
    [run] = arrow_rows.read(part)
    assert run.verdicts == [FILTERED, KEPT, OUTSIDE]
    assert (run.records.undecoded, run.records.values[1]) == ({2: "why"}, b"x")


def test_a_value_that_was_selected_has_no_other_bytes():
    records = replace(three(), decoded=[b"1", b"2", b"3"])
    part = arrow_rows.of(records, 0, None)
    part = part.set_column(part.schema.get_field_index("raw"), "raw", pa.nulls(3, pa.binary()))
    [run] = arrow_rows.read(part)
    assert run.records.values == run.records.readable == [b"1", b"2", b"3"]


@given(st.data())
def test_regrouped_rows_are_the_same_slices(data):
    """Spark makes of ours what it likes: rows of several slices in one, one slice in many."""
    slices = data.draw(st.lists(st.lists(some(), max_size=3), min_size=1, max_size=3))
    parts = []
    for number, runs in enumerate(slices):
        parts += [
            arrow_rows.begin(5, number),
            *(arrow_rows.of(run, number, None) for run in runs),
            arrow_rows.end(5, number),
        ]
    table = pa.Table.from_batches(parts).combine_chunks()
    size = data.draw(st.integers(1, 12))
    found = [
        each for part in table.to_batches(max_chunksize=size) for each in arrow_rows.read(part)
    ]
    for number, runs in enumerate(slices):
        assert found.pop(0) == Begin(5, number)
        held = []
        while isinstance(found[0], ArrowRun):
            held.append(found.pop(0))
        assert found.pop(0) == End(number)
        expected = joined([ArrowRun(run, [KEPT] * len(run)) for run in runs])
        assert joined(held) == expected
    assert found == []


def kept(part: pa.RecordBatch, keep: list[bool | None]) -> pa.RecordBatch:
    columns = [*part.columns, pa.array(keep, pa.bool_())]
    return pa.RecordBatch.from_arrays(columns, names=[*part.schema.names, "keep"])


def three() -> Records:
    return Records("laps", 3, [1, 2, 3], [0] * 3, [0] * 3, [None] * 3, [b"x"] * 3, [()] * 3)


@pytest.mark.parametrize(
    ("keep", "found"),
    [
        ([True, True, True], [KEPT, OUTSIDE, KEPT]),
        ([False, True, None], [FILTERED, OUTSIDE, FILTERED]),
        ([None, False, True], [FILTERED, OUTSIDE, KEPT]),
    ],
)
def test_what_an_expression_says_counts_for_records_of_the_span(keep, found):
    """Null is not true; and what lies outside stays outside, whatever is said of it."""
    part = kept(arrow_rows.of(three(), 0, [KEPT, OUTSIDE, KEPT]), keep)
    [run] = arrow_rows.read(part)
    assert run.verdicts == found


def test_a_row_of_control_is_told_from_a_record_outside_the_span():
    records = three()
    records.offsets[:] = [0, 1, 2]
    part = pa.Table.from_batches(
        [arrow_rows.begin(0, 0), arrow_rows.of(records, 0, [OUTSIDE] * 3), arrow_rows.end(0, 0)]
    ).combine_chunks()
    [batch] = part.to_batches()
    assert list(arrow_rows.read(batch)) == [Begin(0, 0), ArrowRun(records, [OUTSIDE] * 3), End(0)]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ([None, [("a", b"x")], []], [(), (("a", b"x"),), ()]),
        ([None, None, None], [(), (), ()]),
    ],
)
def test_headers_that_an_expression_made_null_are_none(
    written: list[list[tuple[str, bytes]] | None], found: list[Headers]
):
    part = arrow_rows.of(three(), 0, None)
    at = part.schema.get_field_index("headers")
    pairs = [
        None if each is None else [{"name": n, "value": v} for n, v in each] for each in written
    ]
    [run] = arrow_rows.read(
        part.set_column(at, "headers", pa.array(pairs, part.schema.field(at).type))
    )
    assert run.records.headers == found


@given(some(), st.integers(0, 8), st.integers(0, 8))
def test_a_part_cut_out_of_the_middle_is_read_as_it_is(records, start, length):
    part = arrow_rows.of(records, 0, None).slice(start, length)
    found = joined(list(arrow_rows.read(part)))[0]
    assert found.headers == records.headers[start : start + length]
    assert found.offsets == records.offsets[start : start + length]
