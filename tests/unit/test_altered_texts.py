"""What columns do not keep of whole values, keys and places is counted or refused, as with fields."""

import pytest

from playhead.account import Account, ErrorRule
from playhead.errors import Refused
from playhead.json_objects import REPEATED
from playhead.postgres.inspect import Subject, _notes_of_alterations
from playhead.postgres.open_table import WriteRules
from playhead.postgres.rows.altered_values import CUT, ROUNDED
from playhead.postgres.rows.column_layout import Layout, layout_of
from playhead.postgres.rows.decode import Decoded, Decoder, Refusals
from playhead.postgres.session import TableName
from playhead.postgres.table import Column, Table
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records

KEPT_AND_NOT = [
    ("numeric", (5 << 16 | 2) + 4, "1.00", "1.005", ROUNDED),
    ("timestamptz", 0, "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.6Z", ROUNDED),
    ("date", -1, "2024-01-01", "2024-01-01T12:00", CUT),
    ("timetz", -1, "12:00+02", "2024-01-01 12:00+02", CUT),
    ("jsonb", -1, '{"a":{"b":1}}', '{"a":{"b":1,"b":2}}', REPEATED),
]  # fmt: skip


def layout(decode: str, *columns: tuple[str, str, int]) -> Layout:
    made = tuple(
        Column(name, base, base, "b", "", modifier, False, "", "", base, None, "", modifier)
        for name, base, modifier in columns
    )
    are_none = (False, False, False, False, False)
    return layout_of(Table(TableName("s", "t"), 1, "r", "p", *are_none, made, ()), decode)


def records(*values: str, keys: tuple[str, ...] = (), topic: str = "t", start: int = 0) -> Records:
    held = [each.encode() for each in keys] or [None] * len(values)
    return Records.of(
        Record(topic, 0, start + n, 0, TimestampType.CREATE_TIME, held[n], value.encode(), ())
        for n, value in enumerate(values)
    )


def decoded(of: Layout, decode: str, found: Records) -> tuple[Decoded, set[int]]:
    account = Account(Slice(found.topic, 0, 0, 1 << 62), ErrorRule("skip"))
    rows = Decoder(of, decode).decode(found, Refusals(found, account), nulls_are_rows=False)
    return rows, set(account.refused_offsets)


def notes(of: Layout, decode: str, found: Records) -> list[str]:
    subject = Subject("t", of, WriteRules(decode=decode), [found])
    return [note.text for note in _notes_of_alterations(subject)]


@pytest.mark.parametrize(("base", "modifier", "kept", "altered", "what"), KEPT_AND_NOT)
def test_whole_values(base: str, modifier: int, kept: str, altered: str, what: str) -> None:
    of, found = layout("string", ("_value", base, modifier)), records(kept, altered, kept)
    rows, refused = decoded(of, "string", found)
    assert {each: set(at) for each, at in rows.altered.items() if at} == {what: {1}}
    assert refused == set()
    [note] = notes(of, "string", found)
    assert note.startswith("1 of the sampled records")


@pytest.mark.parametrize(("base", "modifier", "kept", "altered", "what"), KEPT_AND_NOT)
def test_keys(base: str, modifier: int, kept: str, altered: str, what: str) -> None:
    of = layout("json", ("id", "int8", -1), ("_key", base, modifier))
    found = records('{"id":1}', '{"id":2}', keys=(kept, altered))
    rows, refused = decoded(of, "json", found)
    assert {each: set(at) for each, at in rows.altered.items() if at} == {what: {1}}
    assert refused == set()
    [note] = notes(of, "json", found)
    assert note.startswith("1 of the sampled records")


@pytest.mark.parametrize(
    ("base", "modifier", "start", "kept"),
    [
        ("float4", -1, (1 << 24) - 1, [True, True, False, True]),
        ("float8", -1, (1 << 53) - 1, [True, True, False, True]),
        ("numeric", (10 << 16 | -1 & 0x7FF) + 4, 9, [False, True, False, False]),
        ("char", -1, 8, [True, True, False, False]),
        ("numeric", -1, 1 << 53, [True] * 4),
        ("numeric", (20 << 16) + 4, 1 << 53, [True] * 4),
        ("int8", -1, 1 << 53, [True] * 4),
        ("text", -1, 8, [True] * 4),
    ],
)
def test_a_place_that_its_column_does_not_keep_is_refused(
    base: str, modifier: int, start: int, kept: list[bool]
) -> None:
    """Otherwise the rows of two records would claim one offset."""
    of = layout("json", ("id", "int8", -1), ("_offset", base, modifier))
    _, refused = decoded(of, "json", records(*['{"id":1}'] * 4, start=start))
    assert [start + n not in refused for n in range(4)] == kept


def test_a_topic_that_its_column_would_cut_is_refused() -> None:
    of = layout("json", ("id", "int8", -1), ("_topic", "name", -1))
    assert decoded(of, "json", records('{"id":1}', topic="t" * 63))[1] == set()
    assert decoded(of, "json", records('{"id":1}', topic="t" * 64))[1] == {0}


@pytest.mark.parametrize("name", ["playhead:offset", "playhead:form", "playhead:layer"])
def test_a_column_with_a_name_of_playheads_own_is_refused(name: str) -> None:
    """The row would have the record's offset there, and not the field."""
    with pytest.raises(Refused, match=f"column {name} of s.t begins with"):
        layout("json", ("id", "int8", -1), (name, "int8", -1))
