"""Typed columns: what fits is a column, what does not is its record's error."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.account import Account, ErrorRule, RecordRefused
from playhead.files.target import FilesTarget
from playhead.files.typed_columns import filled, inferred
from playhead.records import Records
from playhead.source import SourceFacts, TopicFacts
from playhead.target import InspectRequest
from playhead.testing.target_case import terms
from tests.fix_archives import commit, data_files, read, record, slice_, writing

VALUES = [
    b'{"car": 7, "speed": 301, "pit": false, "team": "r\xc3\xa9d", "tyres": [1, 2], "mixed": 1}',
    b'{"speed": 299.5, "mixed": "x", "gone": null}',
    None,
]
MISFITS = {
    b"no JSON": "is not JSON",
    b"[1]": "JSON, but not an object",
    b'{"car": 1.5}': "field 'car' of the value: needed a whole number",
    b'{"car": true}': "field 'car'",
    b'{"car": 9223372036854775808}': "field 'car'",
    b'{"speed": "fast"}': "field 'speed' of the value: needed a number",
    b'{"speed": 1' + b"0" * 400 + b"}": "field 'speed'",
    b'{"speed": 1e400}': "field 'speed' of the value: needed a number that a double can hold",
    b'{"speed": -0.01e-400}': "field 'speed'",
    b'{"pit": 0}': "field 'pit' of the value: needed true or false",
    b'{"team": 1}': "field 'team' of the value: needed a string",
    b'{"team": "\\ud800"}': "field 'team'",
    b"[" * 100_000: "is not JSON",
    b"\xff": "is not JSON",
}


def typed_target(root: Path) -> FilesTarget:
    target = FilesTarget(str(root), typed=True)
    samples = [Records.of(record(n, value=value) for n, value in enumerate(VALUES))]
    inspection = target.inspect(
        InspectRequest(SourceFacts("k", {"t": TopicFacts()}), {"t": 1}, samples)
    )
    (note,) = inspection.notes
    assert "value_car int64, value_mixed json, value_pit bool, value_speed double" in note.text
    target.prepare("r", inspection, terms())
    return target


def test_typed_columns(tmp_path: Path) -> None:
    target = typed_target(tmp_path)
    records = [record(n, value=value) for n, value in enumerate(VALUES)]
    with writing(target, "r") as writer:
        commit(writer, slice_(0, 5), records)
    rows = pq.read_table(data_files(tmp_path)[0]).to_pylist()
    typed = [{k: v for k, v in row.items() if k.startswith("value_")} for row in rows]
    nothing = dict.fromkeys(typed[0])
    assert typed == [
        {
            "value_car": 7,
            "value_mixed": "1",
            "value_pit": False,
            "value_speed": 301.0,
            "value_team": "réd",
            "value_tyres": "[1, 2]",
        },
        nothing | {"value_speed": 299.5, "value_mixed": '"x"'},
        nothing,
    ]
    assert read(tmp_path, slice_(0, 5)) == records


@pytest.mark.parametrize("value", MISFITS, ids=lambda value: value[:20].decode("latin-1"))
def test_a_value_that_does_not_fit_is_refused(tmp_path: Path, value: bytes) -> None:
    target = typed_target(tmp_path)
    records = [record(0, value=VALUES[0]), record(1, value=value), record(2, value=VALUES[1])]
    with (
        writing(target, "r") as writer,
        pytest.raises(RecordRefused, match="t:0 offset 1") as caught,
    ):
        commit(writer, slice_(0, 5), records)
    assert MISFITS[value] in caught.value.reason
    account = Account(slice_(0, 5), ErrorRule("skip"))
    account.read = 3
    with writing(target, "r") as writer:
        writer.commit(account, [Records.of(records)])
        (entry,) = target.entries("r")
        assert (entry.written, entry.skipped) == (2, 1)
        assert writer.compare(entry, [Records.of(records)]).different == 0
    assert read(tmp_path, slice_(0, 5)) == [records[0], records[2]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)
DOCUMENTS = st.none() | FIELDS.map(json.dumps).map(str.encode) | st.binary(max_size=4)


def test_what_is_nested_stays_the_text_that_it_is(tmp_path: Path) -> None:
    target = typed_target(tmp_path)
    nested = '[{"a": 1, "a": 2.00}, 0.1234567890123456789,\\n 1e400, "\\u00e9"]'.replace(
        "\\n", "\n"
    )
    value = f'{{"tyres" : {nested} ,"mixed":1e400, "speed": 0.00e-400}}'.encode()
    with writing(target, "r") as writer:
        commit(writer, slice_(0, 5), [record(0, value=value)])
    (row,) = pq.read_table(data_files(tmp_path)[0]).to_pylist()
    assert (row["value_tyres"], row["value_mixed"]) == (nested, "1e400")
    assert (row["value_speed"], row["value"]) == (0, value)


@pytest.mark.parametrize("depth", range(900, 1000, 3))
def test_a_value_about_as_deep_as_python_goes_is_written_or_refused(depth: int) -> None:
    value = b'{"tyres": ' + b"[" * depth + b"]" * depth + b"}"
    account = Account(slice_(0, 5), ErrorRule("skip"))
    found = filled(account, Records.of([record(0, value=value)]), {"tyres": "json"})
    assert len(found.records) + len(account.refused_offsets) == 1


def test_a_number_beyond_doubles_makes_no_column_of_doubles() -> None:
    assert inferred([b'{"a": 1e400, "b": 1e-400, "c": 0e-400}']) == {
        "a": "json",
        "b": "json",
        "c": "double",
    }


def test_of_two_fields_of_one_name_the_column_has_the_last_and_the_proof_says_so(
    tmp_path: Path,
) -> None:
    target = FilesTarget(str(tmp_path), typed=True)
    values = [b'{"a": 1, "a": 2}', b'{"a": 3, "b": {"x": 1, "x": 2}}', b'{"a": 1, "c": 1, "c": 2}']
    samples = [Records.of(record(n, value=value) for n, value in enumerate(values[:2]))]
    seen = target.inspect(InspectRequest(SourceFacts("k", {"t": TopicFacts()}), {"t": 1}, samples))
    assert [note.code for note in seen.notes] == ["files.columns", "target-fields-repeated"]
    assert seen.notes[1].text.startswith(
        "1 of the sampled records of t have two fields of one name"
    )
    target.prepare("r", seen, terms())
    with writing(target, "r") as writer:
        commit(writer, slice_(0, 5), [record(n, value=each) for n, each in enumerate(values)])
    assert pq.read_table(data_files(tmp_path)[0])["value_a"].to_pylist() == [2, 3, 1]
    (entry,) = target.entries("r")
    assert entry.details["with_repeated_fields"] == 1


@given(
    st.lists(DOCUMENTS, min_size=1, max_size=5),
    st.dictionaries(
        st.sampled_from("abc"),
        st.sampled_from(["int64", "double", "bool", "string", "json"]),
        min_size=1,
    ),
)
def test_what_fits_alone_fits_among_others(values, columns):
    records = Records.of(record(n, value=value) for n, value in enumerate(values))
    account = Account(slice_(0, 10), ErrorRule("skip"))
    fitting, arrays, _ = filled(account, records, columns)
    alone = []
    for each in records:
        one = Account(slice_(0, 10), ErrorRule("skip"))
        alone += filled(one, Records.of([each]), columns)[0]
    assert list(fitting) == alone
    assert account.refused_offsets == {each.offset for each in records} - {e.offset for e in alone}
    for array, (name, type_) in zip(arrays, columns.items(), strict=True):
        for item, each in zip(array.to_pylist(), fitting, strict=True):
            found = json.loads(each.value).get(name) if each.value is not None else None
            needed = json.dumps(found) if type_ == "json" and found is not None else found
            assert item == needed or (item != item and needed != needed) or item == float(needed)


@given(st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_columns_that_were_inferred_fit_what_they_were_inferred_from(values):
    columns = inferred(values)
    objects = [value for value in values if value is None or is_object(value)]
    records = Records.of(record(n, value=value) for n, value in enumerate(values))
    account = Account(slice_(0, 10), ErrorRule("skip"))
    if columns:
        fitting, *_ = filled(account, records, columns)
        assert fitting.values == objects


def is_object(value: bytes) -> bool:
    try:
        return isinstance(json.loads(value.decode()), dict)
    except (ValueError, RecursionError):
        return False


def test_a_slice_of_which_no_value_fits(tmp_path: Path) -> None:
    target = typed_target(tmp_path)
    account = Account(slice_(0, 5), ErrorRule("skip"))
    account.read = 1
    with writing(target, "r") as writer:
        writer.commit(account, [Records.of([record(0, value=b"-")])])
    assert data_files(tmp_path) == []
    assert read(tmp_path, slice_(0, 5)) == []


def test_columns_stay_what_they_were(tmp_path: Path) -> None:
    typed_target(tmp_path)
    samples = [Records.of([record(0, value=b'{"other": 1}')])]
    inspection = FilesTarget(str(tmp_path), typed=True).inspect(
        InspectRequest(SourceFacts("k", {"t": TopicFacts()}), {"t": 1}, samples)
    )
    assert "car" in inspection.needs["topics"]["t"]["columns"]
    assert "other" not in inspection.needs["topics"]["t"]["columns"]


def test_values_that_are_no_json_get_no_columns(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path), typed=True)
    samples = [Records.of([record(0)])]
    inspection = target.inspect(
        InspectRequest(SourceFacts("k", {"t": TopicFacts()}), {"t": 1}, samples)
    )
    assert [note.code for note in inspection.notes] == ["files.no-columns"]
    target.prepare("r", inspection, terms())
    with writing(target, "r") as writer:
        commit(writer, slice_(0, 5), [record(0)])
    assert read(tmp_path, slice_(0, 5)) == [record(0)]
