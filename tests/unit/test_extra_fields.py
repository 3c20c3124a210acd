"""Fields that no column takes: counted by name and never without bound, the same on every way of writing."""

import json
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from playhead.account import Account, ErrorRule, RecordRefused
from playhead.extra_fields import DETAIL, LONGEST_NAME, MOST_NAMES, ExtraFields
from playhead.ledger import Entry, LedgerUnreadable, entry_at, extra_fields_by_topic, joined
from playhead.postgres.open_table import OpenTable, WriteRules, left_out
from playhead.postgres.rows import decode, python_json
from playhead.postgres.rows.column_layout import Field, layout_of
from playhead.postgres.session import TableName
from playhead.postgres.table import Column, Table
from playhead.proof import extra_fields_text
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records

names = st.one_of(st.sampled_from(["car", "Car", "CAR", "lap", "x", "y", ""]), st.text(max_size=4))
name_sets = st.lists(st.frozensets(names, max_size=4).map(lambda each: tuple(sorted(each))))


# --- counts


@given(name_sets)
def test_each_record_and_each_field_is_counted(sets: list[tuple[str, ...]]) -> None:
    counted = ExtraFields.counted(sets)
    assert counted.records == sum(1 for each in sets if each)
    assert sum(counted.fields.values()) + counted.others == sum(map(len, sets))
    wanted = Counter(name for each in sets for name in each)
    assert all(wanted[name] == count for name, count in counted.fields.items())


@given(st.lists(name_sets, max_size=5))
def test_a_sum_has_all_that_its_parts_have(parts: list[list[tuple[str, ...]]]) -> None:
    total = ExtraFields.total(map(ExtraFields.counted, parts))
    whole = ExtraFields.counted([each for part in parts for each in part])
    assert total.records == whole.records
    assert sum(total.fields.values()) + total.others == sum(whole.fields.values()) + whole.others


@given(name_sets)
def test_details_give_the_counts_back(sets: list[tuple[str, ...]]) -> None:
    counted = ExtraFields.counted(sets)
    details = json.loads(json.dumps(counted.as_details()))
    assert ExtraFields.of(details) == (counted if counted.records else ExtraFields())


def test_names_of_strangers_do_not_fill_a_ledger() -> None:
    poison = [(f"field {n}",) for n in range(10_000)]
    poison += [("n" * (LONGEST_NAME + 1),), ("NUL\0",), ("\ud800",), ("\x1b[2J",)]
    counted = ExtraFields.counted([*poison, ("usual",), ("usual",)])
    assert counted.fields["usual"] == 2
    assert len(counted.fields) == MOST_NAMES
    assert counted.records == 10_006
    assert counted.others == 10_006 - 2 - (MOST_NAMES - 1)
    assert all(
        name.isprintable() and name.startswith(("field", "usual")) for name in counted.fields
    )
    assert len(json.dumps(counted.as_document())) < 2_000


@pytest.mark.parametrize(
    "document",
    [
        5,
        [],
        {"records": 1},
        {"records": -1, "fields": {}, "others": 0},
        {"records": 1, "fields": {"a": "b"}, "others": 0},
        {"records": True, "fields": {}, "others": 0},
        {"records": 1, "fields": [1], "others": 0},
    ],
)
def test_an_entry_with_other_counts_is_not_understood(document: Any) -> None:
    entry = json.loads(Entry(Slice("laps", 0, 0, 1), 1, 1).as_json())
    entry["details"] = {DETAIL: document}
    with pytest.raises(LedgerUnreadable, match="cannot be read"):
        entry_at("the ledger", json.dumps(entry))


def entry_of(start: int, counted: ExtraFields, topic: str = "laps") -> Entry:
    details = {"inserted": 10} | counted.as_details()
    return Entry(Slice(topic, 0, start, start + 10), 10, 10, details=details)


def test_entries_add_up_whether_they_are_joined_or_not() -> None:
    """A live pipeline joins its entries; another machine adds up those that it meets."""
    first = entry_of(0, ExtraFields.counted([("a", "b"), ("a",)]))
    second = entry_of(10, ExtraFields())
    third = entry_of(20, ExtraFields.counted([("b",)]))
    other = entry_of(0, ExtraFields.counted([("c",)]), "pits")
    wanted = {"laps": ExtraFields(3, {"a": 2, "b": 2}), "pits": ExtraFields(1, {"c": 1})}
    assert extra_fields_by_topic([first, second, third, other]) == wanted
    whole = joined(joined(first, second), third)
    assert extra_fields_by_topic([other, Entry.from_json(whole.as_json())]) == wanted
    assert whole.details["inserted"] == 30
    assert extra_fields_text(wanted) == "; 4 records have fields that no column takes"
    assert extra_fields_text({}) == ""
    assert DETAIL not in second.details


def test_a_long_pipeline_keeps_its_entry_small() -> None:
    whole = entry_of(0, ExtraFields())
    for n in range(1, 200):
        strange = ExtraFields.counted([(f"{n} {m}",) for m in range(10)])
        whole = joined(whole, entry_of(10 * n, strange))
    assert len(whole.as_json()) < 2_500
    assert extra_fields_by_topic([whole])["laps"].records == 1_990


# --- both ways of decoding, against an oracle that shares nothing with them

COLUMNS = {"car": "int8", "lap": "float8", "Team": "text"}


def column(name: str, base: str) -> Column:
    return Column(name, base, base, "b", "", -1, False, "", "", base, None)


def open_table(extra: bool = False, more: dict[str, str] | None = None, **rules: Any) -> OpenTable:
    columns = COLUMNS | (more or {}) | ({"_extra": "jsonb"} if extra else {})
    table = Table(
        TableName("public", "laps"), 1, "r", "p", False, False, False, False, False,
        tuple(column(*each) for each in columns.items()), (),
    )  # fmt: skip
    return OpenTable(layout_of(table, "json"), WriteRules(**rules))


def slice_of(values: list[bytes | None]) -> Records:
    create = TimestampType.CREATE_TIME
    rows = [Record("laps", 0, n, n, create, None, value) for n, value in enumerate(values)]
    return Records.of(rows)


def outcome(table: OpenTable, values: list[bytes | None]) -> tuple[set[int], ExtraFields]:
    """Which records are refused, and what is counted of the others."""
    account = Account(Slice("laps", 0, 0, len(values)), ErrorRule("skip"))
    decoded = table.decode(slice_of(values), account)
    return set(account.refused_offsets), left_out(decoded, account)


def oracle(value: bytes | None) -> set[str]:
    """By hand: a field is taken by the column of its name, or by one that differs in case alone."""
    if value is None:
        return set()
    document = json.loads(value)
    free = {each.lower() for each in COLUMNS if each not in document}
    return {
        name
        for name, held in document.items()
        if held is not None
        and name not in COLUMNS
        and not (name.isascii() and name.lower() in free)
    }


values_of_fields = st.sampled_from(
    ["1", "1.5", '"x"', "null", "true", '{"car": 1}', '[{"y": null}]', '"\\"car\\":"', "1e5"]
)
spelled = st.sampled_from(
    ["car", "CAR", "lap", "Team", "team", "x", "y", "nuit é", "", "c\\u0061r"]
)
documents = st.lists(st.tuples(spelled, values_of_fields), max_size=5).map(
    lambda pairs: ("{" + ",".join(f'"{name}":{held}' for name, held in pairs) + "}").encode()
)
plain = st.sampled_from([b'{"car":1}', b'{"car":1,"lap":2.5}', b'{"car":1,"x":2}', b'{"Team":"e"}'])
some_values = st.lists(st.one_of(plain, plain, documents, st.none()), min_size=1, max_size=12)


@given(st.lists(some_values, min_size=1, max_size=3), st.sampled_from([None, "jsonb"]))
@example([[b'{"car":1,"x":2}'], [b'{"car":1}'], [b'{"car":1}', b'{"y":1}']], None)
@example([[b'{"car":1}', b'{"CAR":1,"x":null}', b'{"x":"a","x":null}']], None)
def test_every_way_counts_what_the_oracle_counts(
    slices: list[list[bytes | None]], beside: str | None
) -> None:
    """Slice after slice, because a decoder remembers what the last one had."""
    more = {"notes": beside} if beside else {}
    at_once, one_by_one = (open_table(more=more, tombstones="null") for _ in range(2))
    for values in slices:
        refused, counted = outcome(at_once, values)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decode.arrow_json, "read", lambda *_, **__: None)
            assert outcome(one_by_one, values) == (refused, counted)
        kept = [oracle(value) for n, value in enumerate(values) if n not in refused]
        assert counted.records == sum(1 for each in kept if each)
        assert counted.fields == Counter(name for each in kept for name in each)


def test_many_records_are_counted_where_arrow_reads_them_in_parts() -> None:
    values: list[bytes | None] = [b'{"car":%d}' % n for n in range(3_000)]
    values[700] = b'{"car":700,"x":1}'
    values[2_900] = b'{"car":"no number","y":1}'
    assert outcome(open_table(), values)[1] == ExtraFields(2, {"x": 1, "y": 1})


@given(some_values)
def test_a_column_for_the_rest_leaves_nothing_to_count(values: list[bytes | None]) -> None:
    assert outcome(open_table(extra=True, tombstones="null"), values)[1] == ExtraFields()


@given(some_values)
def test_fail_refuses_just_the_records_that_would_be_counted(values: list[bytes | None]) -> None:
    refused, _ = outcome(open_table(tombstones="null"), values)
    wanted = {n for n, value in enumerate(values) if n not in refused and oracle(value)}
    stricter, counted = outcome(open_table(tombstones="null", refuses_left_out=True), values)
    assert stricter - refused == wanted
    assert counted == ExtraFields()


def test_the_reason_names_the_field() -> None:
    account = Account(Slice("laps", 0, 0, 1))
    with pytest.raises(RecordRefused, match=r"no column takes 'speed' \(--extra-fields fail\)"):
        open_table(refuses_left_out=True).decode(slice_of([b'{"car":1,"speed":2}']), account)


def test_names_of_strangers_do_not_fill_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_json, "_MOST_SHAPES_BYTES", 200_000)
    documents = python_json.Documents([Field(column("a", "int4"), None)])
    tracemalloc.start()
    try:
        for number in range(100):
            many = {f"field {each:06d} of {number}": 1 for each in range(1_000)}
            for _ in range(2):
                assert documents.left_out(many | {"a": 1}) == (*many,)
            del many
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
