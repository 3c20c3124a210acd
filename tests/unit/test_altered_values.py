"""What a column does not keep of a text is found, in no more time than a text of that length deserves."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from playhead.json_objects import REPEATED
from playhead.postgres.rows.altered_values import CUT, ROUNDED, alterations
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.table import Column

_MANY = 20_000


def altered(base: str, text: str) -> Iterator[str]:
    element = base[1:] if base.startswith("_") else ""
    column = Column("at", base, base, "b", element, -1, False, "", "", base, "")
    return alterations({"at": text}, [Field(column, None)], {"at": "at"})


@pytest.mark.parametrize(
    "text",
    [
        "1" * _MANY,
        "a" * _MANY,
        "12:" + " " * _MANY + "x\ny",
        "12:" + " \t" * _MANY + "x\ny",
        "12:" + ", " * _MANY + "x",
        "1-" + "a" * _MANY + "!",
        "P" + "a" * _MANY,
        "P" + "1" * _MANY,
        "P" + "1.5Y" * _MANY,
        "P" + "1:1" * _MANY,
        "P" + "1.0" + "a" * _MANY,
        "a" + ":1," * _MANY,
        "a:" + "1A," * 200 + "x",
        "'" * _MANY + "a",
        "'" + "\\" * _MANY,
        "\\'" * _MANY,
        "1" + "\\'" * _MANY + "x",
        "'a\\'" * _MANY,
    ],
)
def test_no_text_keeps_a_task_busy(text: str) -> None:
    began = time.process_time()
    for base in ("time", "timetz", "date", "timestamp", "interval", "money", "tsvector"):
        assert list(altered(base, text)) in ([], [CUT])
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ("a:16383", False),
        ("a:16384", True),
        ("a:1 b:2,99999A c", True),
        ("a:1A5", True),
        ("a:1,2b0,3", True),
        ("a:1A,2b", False),
        (f"a:{'9' * _MANY}", True),
        (f"a:1A{'9' * _MANY}", True),
        ("'a:99999' 'b''c:99999':5", False),
        ("'a\\':99999':5", False),
        ("a\\:99999", False),
        ("\\'a:99999", True),
        ("a'b:99999", True),
        ("a'b:99999 c'd", True),
        ("\\ 'b:99999", True),
        ("a'b 'c:99999':5", False),
        ("a\v'b c:99999'", False),
        ("a\\'b:5 c:99999", True),
        ("a:" + ",".join(map(str, range(1, 256))), False),
        ("a:" + ",".join(map(str, range(1, 257))), True),
    ],
)
def test_positions_that_a_tsvector_does_not_keep_are_found(text: str, is_cut: bool) -> None:
    assert [*altered("tsvector", text)] == ([CUT] if is_cut else [])


def test_long_texts_that_the_server_accepts_are_counted() -> None:
    spaces, zeros = " " * _MANY, "0" * 300
    assert [*altered("date", f"2021-01-01{spaces}12:30")] == [CUT]
    assert [*altered("date", f"2021-01-01{spaces}")] == []
    assert [*altered("interval", f"PT0.{zeros}1S")] == [ROUNDED]
    assert [*altered("interval", f"1{spaces}day")] == []


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [("1.005", False), ("1e -3", False), ("1005e\t-3", False), ("100e -2", True), (" 1.5 ", True)],
)
def test_a_number_is_rounded_however_its_exponent_is_written(text: str, is_kept: bool) -> None:
    modifier = (10 << 16 | 2) + 4
    column = Column(
        "at", "", "numeric", "b", "", modifier, False, "", "", "", "", base_modifier=modifier
    )
    found = [*alterations({"at": text}, [Field(column, None)], {"at": "at"})]
    assert found == ([] if is_kept else [ROUNDED])


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [("$1,234.50", True), ("(1.5)", True), ("1.2,3,5", False), ("$", False), (" ", False)],
)
def test_money_is_counted_if_the_server_drops_a_part_of_it(text: str, is_kept: bool) -> None:
    column = Column("at", "money", "money", "b", "", -1, False, "", "", "", "", money_digits=2)
    found = [*alterations({"at": text}, [Field(column, None)], {"at": "at"})]
    assert found == ([] if is_kept else [ROUNDED])


@pytest.mark.parametrize(
    "text", ["{1.239}", "[2:2]={1.239}", '{NULL,"1.239"}', r"{1\.239}", "{{1.239}}"]
)
def test_an_array_that_is_a_text_is_rounded_as_any(text: str) -> None:
    modifier = (10 << 16 | 2) + 4
    column = Column(
        "at", "numeric(10,2)[]", "_numeric", "b", "numeric", modifier, False, "", "", "", "",
        base_modifier=modifier,
    )  # fmt: skip
    for held, said in ((text, [ROUNDED]), (text.replace("239", "23"), [])):
        assert [*alterations({"at": held}, [Field(column, None)], {"at": "at"})] == said


@pytest.mark.parametrize(
    ("base", "text"),
    [
        ("interval", "0.1 years"),
        ("interval", "P1.23Y"),
        ("interval", "P1.01-2"),
        ("interval", "0.123 decade"),
        ("interval", "1.1234567 secs 1 day"),
        ("interval", "00:00:01.1234567 1 day"),
        ("interval", "0.00000000001 hours"),
        ("interval", "PT1e-7S"),
        ("interval", "1.00000000001 12:00:00"),
        ("interval", "1.5 mon .5 us"),
        ("interval", "1.25 c -.5 us"),
        ("timestamp", "20210804 093000.1234567"),
        ("timestamp", "2021-08-04 0930.1234567"),
        ("timestamptz", "J2459431.123456789012"),
        ("time", "093000.1234567"),
        ("time", "0930.1234567"),
        ("time", "9:30:5.1234567"),
        ("time", "T0930.1234567"),
        ("timestamp", "2021-08-04 9:30:5.1234567"),
        ("timestamptz", "9:30:5.1234567 2021-08-04"),
        ("timestamptz", "4.8.2021 9:30:5.1234567"),
        ("timestamp", "20210804t0930.1234567"),
        ("timestamp", "2021.216 @0930.1234567"),
        ("timestamp", "2021.216T0930.1234567"),
        ("tsrange", "[20210804 093000.1234567,)"),
    ],
)
def test_decimals_anywhere_in_a_time_are_counted(base: str, text: str) -> None:
    assert [*altered(base, text)] == [ROUNDED]


@pytest.mark.parametrize(
    ("base", "text"),
    [
        ("interval", "1.5 weeks"),
        ("interval", "0.5 y"),
        ("interval", "P1.5M"),
        ("interval", "1.23456789 months"),
        ("interval", "1.5 2:00:00"),
        ("interval", "@ 1.5 mins 3.25 secs ago"),
        ("interval", "PT1.500000000S"),
        ("timestamp", "J2459431.5"),
        ("timestamp", "2021.216"),
        ("timestamp", "4.8.20210001"),
        ("timestamp", "2021-08-04 9:30:5.1234560"),
        ("time", "093000.123456Z"),
        ("time", "040506 PM"),
    ],
)
def test_decimals_that_are_kept_are_not_counted(base: str, text: str) -> None:
    assert [*altered(base, text)] == []


@pytest.mark.parametrize("text", ["040506+0530", "0405 IST", "040506.5-08"])
def test_a_zone_behind_a_time_without_colons_is_counted(text: str) -> None:
    assert [*altered("time", text)] == [CUT]


@pytest.mark.parametrize(
    ("base", "text"),
    [
        *(
            ("date", text)
            for text in ("2021-01-01+02", "2021-01-01-0800", "20210101 CET", "2021-01-01CET")
        ),
        *(
            ("date", text)
            for text in ("2021/1/1 +2", "2021-01-01,12:00", "12:00 2021-01-01", "+02 2021-01-01")
        ),
        *(("date", text) for text in ("2021-01-01th12", "2021.001-1200", "1 Jan 2021 12 PM")),
        ("date", "Jan 5, 2021-00:00"),
        *(("daterange", text) for text in ("[2021-01-01+02,)", "[12:00 2021-01-01,)")),
        *(
            ("tsrange", text)
            for text in ("[2021-01-01+02,)", "[2021-01-01MSK,)", "[+02 1 Jan 2021 12:00,)")
        ),
        *(
            ("time", text)
            for text in ("+02 12:00", "CET 12:00:00", "12:00,MSK", "+02 12:00 J2459216")
        ),
        *(
            ("timetz", text)
            for text in ("12:00+02 2021-01-01", "1 Jan 2021 12:00", "12:00 Jan-01-2021")
        ),
    ],
)
def test_a_zone_a_date_or_a_time_anywhere_in_a_text_is_counted(base: str, text: str) -> None:
    assert [*altered(base, text)] == [CUT]


@pytest.mark.parametrize(
    ("base", "text"),
    [
        *(
            ("date", text)
            for text in ("2021-01-01", "20210101", "040506", "2021.001", "J2459216", "epoch")
        ),
        *(
            ("date", text)
            for text in ("1 Jan 2021", "Fri Jan 01 2021", "Jan 1, 2021", "01-JAN-2021 BC")
        ),
        *(
            ("date", text)
            for text in ("2021-01-01T00:00:00.000Z", "20210101 000000", "1/1/2021 UTC")
        ),
        *(
            ("daterange", text)
            for text in ("[2021-01-01,)", '["January 1, 2021",infinity]', "empty")
        ),
        *(("tsrange", text) for text in ("[2021-01-01 12:00:00.5,)", '["Jan 1, 2021 4:05 PM",)')),
        *(
            ("time", text)
            for text in ("12:00", "T120000.5", "04:05 PM", "allballs", "12:00:00+00:00")
        ),
        *(
            ("timetz", text)
            for text in ("12:00+02", "120000-08:00:30", "04:05 PM America/New_York")
        ),
        *(("_date", text) for text in ("{2021-01-01,NULL}", "[0:1]={2021-01-01,2021-01-02}", "{}")),
    ],
)
def test_a_time_of_which_everything_is_kept_is_not_counted(base: str, text: str) -> None:
    assert [*altered(base, text)] == []


@pytest.mark.parametrize(
    "text",
    [
        r'{"{\"a\":1,\"a\":2}"}',
        r'{1,"[{\"b\":{\"a\":1,\"\\u0061\":2}}]"}',
        r"{\{\"a\":1\,\"a\":2\}}",
        r'[0:0]={"{\"a\":1,\"a\":2}"}',
    ],
)
def test_fields_of_one_name_are_counted_in_an_array_that_is_a_text(text: str) -> None:
    column = Column("at", "jsonb[]", "_jsonb", "b", "jsonb", -1, False, "", "", "", "")
    assert [*alterations({"at": text}, [Field(column, None)], {"at": "at"})] == [REPEATED]
    for held in (text.replace(r"\"a\":1", r"\"c\":1"), "{NULL,1}", '{"', "{}"):
        assert [*alterations({"at": held}, [Field(column, None)], {"at": "at"})] == []


def test_quotes_without_an_end_keep_no_task_busy() -> None:
    column = Column("at", "jsonb[]", "_jsonb", "b", "jsonb", -1, False, "", "", "", "")
    began = time.process_time()
    for text in ('{"' * _MANY, '{"' + r"\"" * _MANY, "{" + "[" * _MANY, r"{\[" * _MANY):
        assert [*alterations({"at": text}, [Field(column, None)], {"at": "at"})] == []
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("kind", "held", "found"),
    [
        ("text", [[], []], [CUT]),
        ("int4", [[[]]], [CUT]),
        ("text", [], []),
        ("text", [["a"], ["b"]], []),
        ("text", [[None]], []),
        ("jsonb", [[], []], []),
    ],
)
def test_an_array_of_empty_ones_is_counted(kind: str, held: Any, found: list[str]) -> None:
    """The server stores it as an empty array."""
    column = Column("at", f"{kind}[]", f"_{kind}", "b", kind, -1, False, "", "", "", "")
    assert [*alterations({"at": held}, [Field(column, None)], {"at": "at"})] == found


@pytest.mark.parametrize("base", ["date", "time", "timetz", "tsrange"])
def test_a_text_of_many_spaces_takes_no_time(base: str) -> None:
    began = time.process_time()
    for _ in range(200):
        assert [*altered(base, f"{' ' * 250}x")] == [CUT]
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "text",
    [
        *("2021-01-05 9:5:3.1234567", "9:5:3,1234567 2021-01-05", "Jan 5, 2021 h12m30s10.1234567"),
        *("y2021m01d05 h12m30s10.1234567", "1 Jan 2021T1:2:3.0000001", "J2459220T1:2:3.0000001Z"),
    ],
)
def test_a_fraction_of_a_second_is_found_in_any_spelling(text: str) -> None:
    for base in ("timestamp", "timestamptz"):
        assert [*altered(base, text)] == [ROUNDED]


@pytest.mark.parametrize("text", ["5.1.2021", "2021.005", "Jan 5,2021", "2021-01-05 9:5:3.1234560"])
def test_a_date_with_signs_of_a_fraction_is_no_fraction(text: str) -> None:
    assert [*altered("timestamp", text)] == []
