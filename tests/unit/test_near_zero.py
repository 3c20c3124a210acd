"""A number that is nearer to 0 than a floating-point column can be is counted where it becomes 0."""

from fractions import Fraction

import pytest

from playhead.account import Account, ErrorRule
from playhead.postgres.rows.altered_values import ROUNDED
from playhead.postgres.rows.column_layout import Field, Layout
from playhead.postgres.rows.column_types import route_of
from playhead.postgres.rows.decode import Decoded, Decoder, Refusals
from playhead.postgres.session import TableName
from playhead.postgres.table import Column, Table
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records

# Half of the least number of each type, which is the last one that is rounded to 0.
LAST_ZERO = {"float4": Fraction(1, 2**150), "float8": Fraction(1, 2**1075)}
NUMBERS = [
    "0", "-0.0", "0e-400", "1e-5", "1e-40", "-1E-44", "7.1e-46", "6.9e-46", "1e-46", "-1e-0323", "4e-324",
    "2e-324", "1e-325", "1e-9999", f"0.{'0' * 36}1e-9", f"0.{'0' * 35}1e-8", f"0.{'0' * 50}1", f"0.{'0' * 330}7",
]  # fmt: skip


def decoded(base: str, *values: str) -> Decoded:
    element = base.removesuffix("[]") if base.endswith("[]") else ""
    name = f"_{element}" if element else base
    column = Column("x", base, name, "b", element, -1, False, "", "", name, None)
    are_none = (False, False, False, False, False)
    table = Table(TableName("s", "t"), 1, "r", "p", *are_none, (column,), ())
    decoder = Decoder(Layout(table, (), (Field(column, route_of(column)),)), "json")
    records = Records.of(
        [
            Record("t", 0, n, 0, TimestampType.CREATE_TIME, None, f'{{"x":{value}}}'.encode(), ())
            for n, value in enumerate(values)
        ]
    )
    account = Account(Slice("t", 0, 0, len(values)), ErrorRule("skip"))
    return decoder.decode(records, Refusals(records, account), nulls_are_rows=False)


def becomes_zero(base: str, number: str) -> bool:
    digits, _, exponent = number.lower().partition("e")
    exact = abs(Fraction(digits) * Fraction(10) ** int(exponent or 0))
    return 0 < exact <= LAST_ZERO[base]


@pytest.mark.parametrize("base", ["float4", "float8"])
@pytest.mark.parametrize("is_list", [False, True])
def test_each_number_that_becomes_zero_is_counted(base: str, is_list: bool) -> None:
    values = [f"[1.5, null, {each}]" if is_list else each for each in NUMBERS]
    found = decoded(f"{base}[]" if is_list else base, *values)
    expected = {n for n, each in enumerate(NUMBERS) if becomes_zero(base, each)}
    assert len(expected) >= 4
    assert dict(found.altered) == {ROUNDED: frozenset(expected)}
    # Only these are read one by one, beside zeros that look like them.
    assert found.loose is not None
    assert len(found.loose) + len(found.ready) == len(NUMBERS)
    assert len(found.loose) <= len(expected) + 2


def test_a_zero_beside_a_name_with_a_hyphen_is_read_with_the_others() -> None:
    texts = ("node-01", "6f1c2a3e-42aa-4e1e-10ab-0123456789ab", "0." + "0" * 40)
    found = decoded("float8", *(f'0,"host":"{each}"' for each in texts))
    assert not found.loose
    assert len(found.ready) == len(texts)
