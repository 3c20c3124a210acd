"""A field fills its column however JSON spells its name, whatever records are read beside it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.account import Account, ErrorRule
from playhead.postgres.rows.column_layout import Field, Layout
from playhead.postgres.rows.column_types import route_of
from playhead.postgres.rows.decode import Decoder, Refusals
from playhead.postgres.session import TableName
from playhead.postgres.table import Column, Table
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records

SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\t": "\\t", "\n": "\\n", "\b": "\\b"}
letters = st.sampled_from('ab"\\/\t\n\bé')


def column(name: str) -> Column:
    return Column(name, "text", "text", "b", "", -1, False, "", "", "text", None)


def filled(name: str, values: list[str]) -> dict[int, Any]:
    """What the column gets, by offset."""
    are_none = (False, False, False, False, False)
    table = Table(TableName("s", "t"), 1, "r", "p", *are_none, (column(name),), ())
    decoder = Decoder(Layout(table, (), (Field(column(name), route_of(column(name))),)), "json")
    rows = [
        Record("t", 0, n, 0, TimestampType.CREATE_TIME, None, value.encode(), ())
        for n, value in enumerate(values)
    ]
    account = Account(Slice("t", 0, 0, len(rows)), ErrorRule("skip"))
    records = Records.of(rows)
    decoded = decoder.decode(records, Refusals(records, account), nulls_are_rows=False)
    found: dict[int, Any] = {}
    for part in (decoded.ready, decoded.loose):
        if part is not None and name in part.column_names:
            offsets = part.column("playhead:offset").to_pylist()
            found |= zip(offsets, part.column(name).to_pylist(), strict=True)
    return found


@st.composite
def spelled(draw: st.DrawFn, name: str) -> str:
    """The name in JSON, with other cases and escapes."""
    written = ""
    for letter in name:
        ways = [letter, letter.swapcase()] if letter.isascii() else [letter]
        ways = [way for way in ways if way.isprintable() and way not in '"\\']
        ways += [SHORT[letter]] if letter in SHORT else []
        written += draw(st.sampled_from([*ways, f"\\u{ord(letter):04x}"]))
    return f'"{written}"'


@given(st.data())
def test_every_spelling_of_a_name_fills_its_column(data: st.DataObject) -> None:
    name = data.draw(st.text(letters, min_size=1, max_size=3))
    names = data.draw(st.lists(spelled(name), min_size=1, max_size=4))
    values = [f'{{{each}:"{n}"}}' for n, each in enumerate(names)]
    assert all(json.loads(each) for each in values)
    assert filled(name, values) == {n: str(n) for n in range(len(values))}


@pytest.mark.parametrize("first", ["a/b", "A\\/B"])
@pytest.mark.parametrize("second", ["A\\/B", "a\\/b", "a/b"])
def test_a_slash_may_have_a_backslash(first: str, second: str) -> None:
    """As PHP writes it."""
    assert filled("a/b", [f'{{"{first}":"0"}}', f'{{"{second}":"1"}}']) == {0: "0", 1: "1"}
