"""Numbers and names that the server would take for others, without a word, are refused."""

import contextlib
import time
from dataclasses import replace

import pytest

from playhead.postgres.rows.text_format import Bad, Number, text_for
from playhead.postgres.table import Column, form_of_money


def text(base: str, element: str, held: object) -> str:
    return text_for(Column("x", base, base, "b", element, -1, False, "", "", base, None), held)


@pytest.mark.parametrize(
    ("base", "element", "held"),
    [
        ("xid", "", -1),
        ("xid", "", 2**32),
        ("cid", "", "99999999999"),
        ("xid8", "", 2**64),
        ("xid8", "", "-1"),
        ("oid", "", " -1"),
        ("_oid", "oid", "{1,-1}"),
        ("oidvector", "", "1 -1"),
        ("xid", "", "010"),
        ("xid8", "", "0777"),
        ("macaddr", "", "100000008:00:2b:01:02:03"),
        ("macaddr", "", "-fffffff8:00:2b:01:02:03"),
        ("_macaddr", "macaddr", '{"08:00:2b:01:02:100000003"}'),
        ("macaddr8", "", "08:00:2b:01:02:03:04:055"),
        ("macaddr8", "", "08002b0102030"),
        ("_macaddr8", "macaddr8", ["0800.2b01.0203.0405a"]),
        ("pg_snapshot", "", "10:99999999999999999999:"),
        ("txid_snapshot", "", "10:-5:"),
        ("tid", "", "(-1,0)"),
        ("_tid", "tid", ["(-1,0)"]),
        ("_tid", "tid", '{"(-1,0)"}'),
        ("_oid", "oid", '[0:0]={"-1"}'),
        ("_xid", "xid", [5, -5]),
        ("_name", "name", "{" + "a" * 64 + "}"),
        ("_name", "name", '{"' + "a," * 33 + '"}'),
        ("_char", "char", "{ab}"),
        ("date", "", Number("1.100")),
        ("date", "", Number("2021.100")),
        ("_date", "date", [Number("12345678.125")]),
        # Brackets and commas are nothing to the server's parser of times.
        ("date", "", [Number("1.005")]),
        ("date", "", ["2021-01-05", "2022-01-05"]),
        ("timestamptz", "", [2021, 100]),
        ("timestamp", "", [210105]),
        ("timestamptz", "", [[1, 2], [3]]),
        ("time", "", {"2021-01-01": "12:00"}),
        ("interval", "", [5, "hours", 3]),
        ("_timestamptz", "timestamptz", [{"2021-01-05": "12:00"}]),
    ],
)
def test_what_the_server_would_change_is_refused(base: str, element: str, held: object) -> None:
    with pytest.raises(Bad):
        text(base, element, held)


@pytest.mark.parametrize(
    ("base", "element", "held"),
    [
        ("xid", "", 2**32 - 1),
        ("xid8", "", str(2**64 - 1)),
        ("xid", "", "0"),
        ("macaddr", "", "8:0:2B:1:2:3"),
        ("macaddr", "", "08-00-2b-01-02-03"),
        ("macaddr", "", "08002b:010203"),
        ("macaddr", "", "0800.2b01.0203"),
        ("macaddr", "", "08002b010203"),
        ("_macaddr", "macaddr", "{08:00:2b:01:02:03,NULL}"),
        ("macaddr8", "", "08:00:2b:01:02:03:04:05"),
        ("macaddr8", "", "08-00-2B-01-02-03"),
        ("macaddr8", "", " 08002b0102030405 "),
        ("_macaddr8", "macaddr8", "{0800.2b01.0203.0405,NULL}"),
        ("pg_snapshot", "", "10:20:10,14"),
        ("txid_snapshot", "", "10:20:"),
        ("_oid", "oid", "{1,NULL,2}"),
        ("oidvector", "", "1 2"),
        ("tid", "", "(1,0)"),
        ("tid", "", " ( 1 , 0 ) "),
        ("_tid", "tid", '{"(1,0)",NULL}'),
        ("_name", "name", '{"' + "a" * 63 + '",b}'),
        ("_text", "text", "{" + "a" * 64 + "}"),
        ("date", "", 20210804),
        ("date", "", "2021.216"),
    ],
)
def test_what_the_server_keeps_is_written(base: str, element: str, held: object) -> None:
    assert text(base, element, held) == str(held)


@pytest.mark.parametrize("held", ['\\"', '"\\"', "\\", '1\\"', '"a\\",'])
@pytest.mark.parametrize("element", ["xid", "tid", "name", "macaddr", "oidvector"])
def test_a_text_of_quotes_without_an_end_takes_no_time(element: str, held: str) -> None:
    began = time.process_time()
    for around in ("{%s", "{%s}", "[0:1]={%s"):
        with contextlib.suppress(Bad):
            text(f"_{element}", element, around % (held * 200_000))
    assert time.process_time() - began < 5


def test_a_date_as_a_list_is_written() -> None:
    assert text("date", "", [2021, 1, 5]) == "[2021,1,5]"


@pytest.mark.parametrize(
    ("money", "point", "digits"),
    [
        ("$1,234.50", ".", 2),
        ("1.234,50 €", ",", 2),
        ("1 234,50 €", ",", 2),
        ("CHF 1’234.50", ".", 2),
        ("KD 1,234.500", ".", 3),
        ("1234.500", ".", 3),
        ("￥1,235", ".", 0),
        ("1.235 kr", ",", 0),
        ("$1234.50", ".", 2),
        ("1234,50 zł", ",", 2),
        ("1235", ".", 0),
        ("", ".", 2),
    ],
)
def test_the_form_of_a_servers_money(money: str, point: str, digits: int) -> None:
    assert form_of_money(money) == (point, digits)


def test_a_number_is_money_with_the_decimal_point_of_its_server() -> None:
    """A German server takes 12.34 for 1234, because a point stands between thousands there."""
    plain = Column("x", "money", "money", "b", "", -1, False, "", "", "money", None)
    german = replace(plain, decimal_point=",")
    assert text_for(plain, Number("12.34")) == "12.34"
    assert text_for(german, Number("-12.34")) == "-12,34"
    assert text_for(german, 1234) == "1234"
    assert text_for(german, "1.234,56 €") == "1.234,56 €", "a text is the server's own"
    several = replace(german, base="_money", element="money")
    assert text_for(several, [[Number("12.34")], [None]]) == '{{"12,34"},{NULL}}'


@pytest.mark.parametrize("held", [120_000, 1200, 0, Number("120000.5"), Number("-0")])
@pytest.mark.parametrize("base", ["time", "timetz"])
def test_a_number_is_no_time_of_day(base: str, held: int) -> None:
    """The server takes 120000 for noon, and Kafka Connect writes 00:02 so."""
    with pytest.raises(Bad, match="no time"):
        text(base, "", held)
    with pytest.raises(Bad, match="no time"):
        text(f"_{base}", base, [held])
    assert text(base, "", "120000") == "120000"
