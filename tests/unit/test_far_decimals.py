"""Numbers far beyond a column's neither end the process nor become other numbers."""

import subprocess
import sys
from decimal import Decimal

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

FAR = [
    b"1e-41",
    b"1e-999",
    b"0e-999",
    b"-1.5E-0099999999",
    b'"1e-99999999"',
    b'"1\\u0065-99999999"',
    b'"1e\\u002d99999999"',
    b"0." + b"0" * 60 + b"1",
    b" 1e-99999999 ",
]


def decoded(*values: bytes, precision: int = 10, scale: int = 2) -> Decoded:
    modifier = (precision << 16) + scale + 4
    name = f"numeric({precision},{scale})"
    shown = ("x", name, "numeric", "b", "", modifier, False, "", "", "numeric", None)
    column = Column(*shown, base_modifier=modifier)
    are_none = (False, False, False, False, False)
    table = Table(TableName("s", "t"), 1, "r", "p", *are_none, (column,), ())
    decoder = Decoder(Layout(table, (), (Field(column, route_of(column)),)), "json")
    records = Records.of(
        [
            Record("cars", 0, n, 0, TimestampType.CREATE_TIME, None, b'{"x":' + value + b"}", ())
            for n, value in enumerate(values)
        ]
    )
    account = Account(Slice("cars", 0, 0, len(values)), ErrorRule("skip"))
    return decoder.decode(records, Refusals(records, account), nulls_are_rows=False)


def test_the_server_decides_about_numbers_with_far_decimals() -> None:
    # In a process of its own, because the one that reads them may be killed.
    program = "from tests.unit.test_far_decimals import FAR, told; [told(each) for each in FAR]"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def told(far: bytes) -> None:
    found = decoded(b"1.25", far, b"2.50")
    assert found.ready.column("x").cast("string").to_pylist() == ["1.25", "2.50"]
    assert len(found.loose) == 1
    is_nothing = far.startswith(b"0e")
    assert dict(found.altered) == ({} if is_nothing else {ROUNDED: frozenset({1})})


@pytest.mark.parametrize("near", [b"1.5e-1", b"150e-02", b"0.5000000000000000000000000000"])
def test_other_numbers_are_read_all_at_once(near: bytes) -> None:
    found = decoded(b"1.25", near)
    assert found.loose is None
    assert len(found.ready) == 2


def test_only_the_values_with_far_decimals_are_read_one_by_one() -> None:
    like_one = b'7.5, "id": "0ef1-6f1e-012345678912"'
    values = [b"1.25", b"1e-41", like_one, b"2.50", b" 1E-42", b"3.5", b"1e-43"]
    found = decoded(*values)
    assert found.ready.column("x").cast("string").to_pylist() == ["1.25", "7.50", "2.50", "3.50"]
    assert dict(found.altered) == {ROUNDED: frozenset({1, 4, 6})}


@pytest.mark.parametrize("scale", [3, 10, 18, 35, 36])
@pytest.mark.parametrize("form", [b"%d", b"-%d", b"%d.0", b"%de0", b'"%d"'])
def test_a_number_that_is_too_large_does_not_become_another_one(scale: int, form: bytes) -> None:
    # With so many zeros behind it, it is a little more than 128 bits hold: what is left looks like a number.
    around = -(-(2**128) // 10**scale)
    for times, more in ((1, 2_000), (1, around // 3), (2, around), (3, 10 * around)):
        value = form % (around * times + more)
        found = decoded(b"0.5", value, b"0.25", precision=36, scale=scale)
        kept = [*found.ready.column("x").to_pylist(), *found.loose.column("x").to_pylist()]
        assert len(kept) == 3
        assert value.decode().strip('"') in kept


@pytest.mark.parametrize("scale", [3, 18, 28])
def test_the_largest_numbers_of_a_wide_column_are_read_all_at_once(scale: int) -> None:
    most = Decimal("9" * 36).scaleb(-scale)
    values = [f"{each:f}".encode() for each in (most, -most, Decimal(0), Decimal(1).scaleb(-scale))]
    found = decoded(*values, b"null", precision=36, scale=scale)
    assert found.loose is None
    kept = found.ready.column("x").to_pylist()
    assert kept[:2] == [most, -most]
    assert kept[2:] == [0, Decimal(1).scaleb(-scale), None]


def test_a_number_that_is_too_large_leaves_the_others_to_be_read_at_once() -> None:
    far = b"340282366920938466484"
    found = decoded(*[b"1.5"] * 500, far, *[b"2.5"] * 500, precision=36, scale=18)
    assert len(found.ready) == 1_000
    assert found.loose.column("x").to_pylist() == [far.decode()]


@pytest.mark.parametrize("scale", [3, 18, 36])
@pytest.mark.parametrize("sign", [b"", b"-"])
def test_the_first_number_that_does_not_fit_is_read_as_text(scale: int, sign: bytes) -> None:
    first = sign + b"1" + b"0" * (38 - scale)
    found = decoded(b"0.5", first, precision=36, scale=scale)
    assert found.ready.column("x").to_pylist() == [Decimal("0.5")]
    assert found.loose.column("x").to_pylist() == [first.decode()]
