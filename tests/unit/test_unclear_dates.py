"""A date with a year of two digits may be another one; a date whose year is plain is not."""

import time

import pytest

from playhead.postgres.rows.unclear_dates import unclear_date

UNCLEAR = [
    "24.10.21",
    "24-OCT-21",
    "24Oct21",
    "24 Oct 21",
    "21 Oct 24",
    "03/04/05",
    "1 2 3",
    "10-11-12",
    "Oct 24, 21",
    "October 24 21",
    "Wed 24/10/21",
    "24-Oct-21 10:00:00",
    "12:30 24-Oct-21",
    "24-10-21T10:30:00Z",
    "24-10-21T103000",
    "24-10-21 103000",
    "21-10-24 10:00+02",
    "Sun Oct 24 10:00:00 21",
    "Sun Oct 24 10:00:00 CEST 21",
    "[21,10,24]",
    '{"2021-01-01","24-10-21"}',
    "[24-10-21,25-10-21)",
]
CLEAR = [
    "2021-10-24",
    "2021-8-4",
    "0099-01-08",
    "294276-12-31",
    "0044-03-15 BC",
    "2021 Oct 24",
    "24 Oct 2021",
    "24-Oct-2021 10:00",
    "Oct 24 2021",
    "Jan 5 2021 10:00 PM",
    "Sun Oct 24 10:00:00 CEST 2021",
    "99-01-08",
    "99 Oct 24",
    "20210804",
    "210804",
    "2021.297",
    "J2451187",
    "2021-08-04T10:30:00.123456+05:30",
    "2021-08-04 10",
    "2021-08-04-08",
    "2021-08-04 10:30:00 +0200",
    "2021-08-04 10:30:00-08",
    "2021-01-05 10:00:00 Europe/Berlin",
    "[2021-01-05,2021-01-09)",
    '{"2021-01-05 10:00:00","2021-01-06 1:2:3"}',
    "[2021,1,5]",
    "epoch",
    "-infinity",
    "(,)",
    "10:00",
]


@pytest.mark.parametrize("text", UNCLEAR)
def test_a_year_of_two_digits_makes_a_date_unclear(text: str) -> None:
    assert unclear_date(text)


@pytest.mark.parametrize("text", CLEAR)
def test_a_date_whose_year_is_plain_is_not_unclear(text: str) -> None:
    assert unclear_date(text) is None
    assert unclear_date(text, are_many=True) is None


@pytest.mark.parametrize("text", ["[2000-02-05,7.3.1)", "{2021-10-24,24-Oct-21}", '{"Oct 24, 21"}'])
def test_a_comma_ends_a_date_where_there_are_many(text: str) -> None:
    assert unclear_date(text, are_many=True)


@pytest.mark.parametrize(
    "text",
    [
        "1 " * 200_000,
        "1" + " " * 400_000,
        "1 " + "-" * 400_000,
        "jan" * 130_000,
        "jan 1 " * 70_000,
        "1jan" * 100_000,
        "oct 24 " + "a" * 400_000,
        "oct 24 a " * 50_000,
        "oct  " * 80_000,
        "oct" + " " * 400_000,
        "1:" * 200_000,
        "1:1" + " " * 400_000,
        "1:1 " * 100_000,
    ],
)
def test_the_time_grows_with_the_length(text: str) -> None:
    began = time.monotonic()
    unclear_date(text, are_many=True)
    assert time.monotonic() - began < 5
