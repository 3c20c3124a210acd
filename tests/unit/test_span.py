"""The grammar of spans: every form, what it resolves to, and where an error points."""

import pickle
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.errors import UsageError
from playhead.grammar.cursor import Cursor, NotUnderstood
from playhead.grammar.duration import (
    parse_duration_ms,
    show_duration_ms,
    show_duration_ns,
)
from playhead.grammar.instant import ClockTime, FromNow, Instant, show_ms, show_ns
from playhead.grammar.zone import zone_name
from playhead.span import (
    ContradictorySpan,
    EndsBeforeStart,
    Lasting,
    OffsetSpan,
    Resolved,
    Span,
)

MS, SECOND = 1_000_000, 1_000_000_000
HOUR = 3600 * SECOND
NOON = "2021-08-04T12:30:00.000Z"
NOON_MS = 1_628_080_200_000
NOW = datetime(2021, 8, 4, 18, 0, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * SECOND
ZONES = ["UTC", "+05:30", "-08:00", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]

instants = st.integers(0, 4_000_000_000 * SECOND).map(Instant)
shifts = st.integers(-(10**19), 10**19).map(FromNow)
clock_times = st.builds(ClockTime, st.integers(0, 24 * HOUR - 1), st.sampled_from(ZONES))
points = instants | shifts | clock_times
lengths = st.integers(0, 10**19).map(Lasting)
topics = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)
CLOCKS = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
# Days on which clocks of those zones were changed, and any others.
changes = ((3, 14), (3, 28), (4, 4), (10, 3), (10, 31), (11, 7))
local_times = st.builds(
    lambda day, minutes: datetime(2021, *day) + timedelta(minutes=minutes),
    st.sampled_from(changes),
    st.integers(0, 4 * 60),
) | st.datetimes(datetime(1970, 1, 2), datetime(2037, 1, 1)).map(
    lambda local: local.replace(microsecond=0)
)
SORTS = ("both", "from", "to", "for", "before", "none")


@st.composite
def time_spans(draw) -> Span:
    """Any span that `Span.parse` could have given: none that is known to be backwards."""
    sort = draw(st.sampled_from(SORTS))
    from_ = draw(points) if sort in ("both", "from", "for") else None
    # A time of day beside an instant is read as that day's, so it never stands there.
    others = instants | shifts if isinstance(from_, Instant) else points
    to = draw(others) if sort in ("both", "to", "before") else None
    if sort == "both" and type(from_) is type(to):
        key = {Instant: "ns", FromNow: "shift_ns", ClockTime: "of_day_ns"}[type(from_)]
        from_, to = sorted([from_, to], key=lambda point: getattr(point, key))
    length = draw(lengths)
    return Span(length if sort == "before" else from_, length if sort == "for" else to)


@st.composite
def offset_spans(draw) -> Span:
    """Disjoint offsets of a few partitions, in order."""
    named, spans = draw(st.booleans()), []
    names = sorted(draw(st.sets(topics, min_size=1, max_size=2))) if named else [None]
    for topic in names:
        for partition in sorted(draw(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=3))):
            edges = sorted(draw(st.sets(st.integers(0, 2**63 - 1), min_size=4, max_size=4)))
            pairs = [(edges[0], edges[1]), (edges[2], edges[3])]
            if draw(st.booleans()):
                pairs = [(None, edges[0]), (edges[1], None)]
            spans += [OffsetSpan(topic, partition, *pair) for pair in pairs]
    return Span(offsets=tuple(spans))


def resolved(text: str, timezone: str = "UTC") -> str:
    return str(Span.parse(text, timezone=timezone).resolve(NOW_NS))


def shown(*clock: str) -> str:
    return "..".join(each if each in ("start", "end") else f"2021-08-04T{each}Z" for each in clock)


# --- laws


@given(time_spans() | offset_spans())
def test_what_is_shown_reads_as_the_same_span(span):
    assert Span.parse(str(span)) == span
    assert Span.parse(str(span), timezone="Asia/Kathmandu") == span
    assert pickle.loads(pickle.dumps(span)) == span  # noqa: S301


@given(instants, instants, st.integers(0, 4_000_000_000_000), st.integers(-2, 2))
def test_milliseconds_hold_the_records_of_the_nanoseconds(one, other, anywhere, near):
    """A record's time is in `[from, to)` of the instants when it is in that of the milliseconds."""
    from_, to = sorted([one, other], key=lambda instant: instant.ns)
    found = Span(from_, to).resolve(0)
    for ms in (anywhere, from_.ns // MS + near, to.ns // MS + near):
        assert (from_.ns <= ms * MS < to.ns) == (found.from_ms <= ms < found.to_ms)


@given(time_spans(), st.integers(1_500_000_000 * SECOND, 1_700_000_000 * SECOND))
def test_a_resolved_span_is_in_order_and_never_before_1970(span, now_ns):
    try:
        found = span.resolve(now_ns)
    except UsageError:
        return
    assert (found.from_ms or 0) >= 0
    assert found.to_ms is None or (found.from_ms or 0) <= found.to_ms
    assert (found.from_ms is None) == (span.from_ is None)
    assert (found.to_ms is None) == (span.to is None)


@given(st.integers(10**18, 2 * 10**18), shifts)
def test_what_is_relative_moves_with_now(now_ns, shift):
    assert shift.at_ns(now_ns + SECOND) == shift.at_ns(now_ns) + SECOND


@given(st.integers(0, 10**18))
def test_a_shown_duration_reads_as_the_same(ms):
    assert parse_duration_ms(show_duration_ms(ms)) == ms


@given(st.integers(0, 253_402_300_799_999), st.sampled_from(ZONES))
def test_a_shown_instant_reads_as_the_same_in_every_zone(ms, zone):
    text = show_ms(ms)
    assert Span.of(text, timezone=zone).resolve(0).from_ms == ms
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        milliseconds=ms
    )


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_time_that_a_log_can_hold_is_shown(ms):
    """The calendar repeats after 400 years, so any year can be checked against one that Python knows."""
    cycle = 146_097 * 86_400_000
    day = datetime(2000, 1, 1, tzinfo=UTC)
    cycles, rest = divmod(ms - int(day.timestamp()) * 1000, cycle)
    same = day + timedelta(milliseconds=rest)
    year = same.year + 400 * cycles
    said = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    assert show_ms(ms) == f"{said}{same:-%m-%dT%H:%M:%S}.{same.microsecond // 1000:03}Z"


@given(local_times, st.sampled_from(CLOCKS))
def test_a_local_time_is_read_as_the_zones_clocks_show_it_or_refused(local, zone):
    known = ZoneInfo(zone)
    days = (local + timedelta(days=by) for by in (-1, 1))
    instants = {
        local.replace(tzinfo=UTC) - offset
        for offset in {day.replace(tzinfo=known).utcoffset() or timedelta() for day in days}
    }
    showing = [at for at in instants if at.astimezone(known).replace(tzinfo=None) == local]
    text = f"{local:%Y-%m-%dT%H:%M:%S}"
    if len(showing) == 1:
        assert Span.of(text, timezone=zone).resolve(0).from_ms == showing[0].timestamp() * 1000
    else:
        with pytest.raises(NotUnderstood, match="twice" if showing else "does not exist"):
            Span.of(text, timezone=zone)


@given(st.text(max_size=30) | st.from_regex(r"[0-9TZ:.,+\-\[\]\/ a-zP]{0,30}", fullmatch=True))
def test_whatever_is_written_is_a_span_or_a_usage_error(text):
    for read in (Span.parse, Span.of, lambda text: Span.of(offsets=text)):
        try:
            span = read(text)
        except UsageError as error:
            refused = error
        else:
            assert Span.parse(str(span)) == span
            continue
        assert refused.exit_code == 2
        if isinstance(refused, NotUnderstood):
            assert 0 <= refused.at <= len(refused.written) == len(text)


# --- the forms

FORMS = [
    ("2021-08-04T12:30:00Z..2021-08-04T14:30:00Z", shown("12:30:00.000", "14:30:00.000")),
    ("2021-08-04T12:30..14:30", shown("12:30:00.000", "14:30:00.000")),
    ("2021-08-04 12:30:00.5 UTC..2h", shown("12:30:00.500", "14:30:00.500")),
    ("2021-08-04t12:30:00z..", shown("12:30:00.000", "end")),
    ("2021-08-04T18:00:00+0530..", shown("12:30:00.000", "end")),
    ("2021-08-04T18:00:00+05:30..", shown("12:30:00.000", "end")),
    ("2021-08-04T08:30:00-04..", shown("12:30:00.000", "end")),
    ("2021-08-04 12:30:00,123..", shown("12:30:00.123", "end")),
    ("2021-08-04T12:30:00.000000001Z..", shown("12:30:00.001", "end")),
    ("2021-08-04T14:30[Europe/Berlin]..", shown("12:30:00.000", "end")),
    ("2021-08-04..2021-08-05", "2021-08-04T00:00:00.000Z..2021-08-05T00:00:00.000Z"),
    ("2021-08-04[Europe/Berlin]..", "2021-08-03T22:00:00.000Z..end"),
    ("2021-08-04T14:30+02:00..15:30", shown("12:30:00.000", "13:30:00.000")),
    ("2021-08-03T23:30-04:00..23:45", "2021-08-04T03:30:00.000Z..2021-08-04T03:45:00.000Z"),
    ("12:30..14:30", shown("12:30:00.000", "14:30:00.000")),
    ("14:30+02:00..15:30", shown("12:30:00.000", "13:30:00.000")),
    ("-2h..14:30Z", None),
    ("1628080200..1628087400", shown("12:30:00.000", "14:30:00.000")),
    ("1628080200..14:30", shown("12:30:00.000", "14:30:00.000")),
    ("1628080200123..1628080200123456", shown("12:30:00.123", "12:30:00.124")),
    ("1628080200123000000..1628080200123000001", shown("12:30:00.123", "12:30:00.124")),
    ("-2h..now", shown("16:00:00.000", "18:00:00.000")),
    ("now-2h30m..now-90s", shown("15:30:00.000", "17:58:30.000")),
    ("now - PT2H0M0S .. +5m", shown("16:00:00.000", "18:05:00.000")),
    ("-P1D..now", "2021-08-03T18:00:00.000Z..2021-08-04T18:00:00.000Z"),
    ("2h..now", shown("16:00:00.000", "18:00:00.000")),
    ("12:30..PT2H", shown("12:30:00.000", "14:30:00.000")),
    ("last 2h", shown("16:00:00.000", "end")),
    ("start..end", "start..end"),
    ("..", "start..end"),
    ("start..", "start..end"),
    ("..2021-08-04T12:30", shown("start", "12:30:00.000")),
    ("orders:0:100-200", "orders:0:100-200"),
    ("orders:1:5-,orders:0:-7", "orders:0:-7,orders:1:5-"),
    ("0:100-200, 0:0-50", "0:0-50,0:100-200"),
    ("a..b:0:1-2", "a..b:0:1-2"),
    ("eu.orders-dlq_1:12:-", "eu.orders-dlq_1:12:-"),
]


@pytest.mark.parametrize(("text", "means"), FORMS, ids=[text for text, _ in FORMS])
def test_every_form_means_what_the_guide_says(text, means):
    if means is None:
        with pytest.raises(EndsBeforeStart):
            resolved(text)
    else:
        assert resolved(text) == means


def test_a_time_without_a_zone_is_in_the_zone_that_counts():
    assert resolved("2021-08-04T14:30..15:30", "Europe/Berlin") == shown(
        "12:30:00.000", "13:30:00.000"
    )
    assert resolved("14:30..15:30", "+02:00") == shown("12:30:00.000", "13:30:00.000")
    assert resolved("2021-08-04T12:30Z..", "Europe/Berlin") == shown("12:30:00.000", "end")
    assert resolved("1628080200..", "Europe/Berlin") == shown("12:30:00.000", "end")


def test_today_is_the_day_it_is_in_the_zone():
    late = Span.parse("23:30..", timezone="Asia/Kathmandu")
    assert str(late.resolve(NOW_NS)) == "2021-08-04T17:45:00.000Z..end"
    assert str(late.resolve(NOW_NS + HOUR)) == "2021-08-05T17:45:00.000Z..end"


@pytest.mark.parametrize(
    ("options", "means"),
    [
        ({}, "start..end"),
        ({"from_": "2021-08-04T12:30:00", "to": "14:30"}, shown("12:30:00.000", "14:30:00.000")),
        ({"from_": "2021-08-04T12:30", "for_": "2h"}, shown("12:30:00.000", "14:30:00.000")),
        ({"to": "2021-08-04T12:30", "for_": "2h"}, shown("10:30:00.000", "12:30:00.000")),
        ({"last": "6h"}, shown("12:00:00.000", "end")),
        ({"from_": "start"}, "start..end"),
        ({"to": "end"}, "start..end"),
        ({"to": "-1h"}, shown("start", "17:00:00.000")),
        ({"from_": "-2h", "for_": "PT1H"}, shown("16:00:00.000", "17:00:00.000")),
        ({"from_": "12:30", "for_": "0s"}, shown("12:30:00.000", "12:30:00.000")),
        ({"offsets": "orders:0:1-2"}, "orders:0:1-2"),
        (
            {"from_": "14:30", "to": "15:30", "timezone": "Europe/Berlin"},
            shown("12:30:00.000", "13:30:00.000"),
        ),
    ],
)
def test_options_mean_what_their_texts_say(options, means):
    assert str(Span.of(**options).resolve(NOW_NS)) == means


def test_offsets_of_one_partition_may_touch():
    assert resolved("0:5-9,0:1-5") == "0:1-5,0:5-9"


def test_offsets_resolve_to_themselves():
    span = OffsetSpan("orders", 0, 0, None)
    assert Span.parse("orders:0:0-").resolve(NOW_NS) == Resolved(None, None, (span,))
    assert Span.parse("3:-").offsets == (OffsetSpan(None, 3, None, None),)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2h30m", 9_000_000),
        ("1d12h", 129_600_000),
        ("90s", 90_000),
        ("500ms", 500),
        ("1w", 604_800_000),
        ("1.5h", 5_400_000),
        ("0s", 0),
        ("2000us", 2),
        ("2000µs", 2),
        ("3000000ns", 3),
        ("PT2H0M0S", 7_200_000),
        ("P1D", 86_400_000),
        ("P1DT2H", 93_600_000),
        ("p1w", 604_800_000),
        ("PT0.5S", 500),
        ("pt90m", 5_400_000),
        (" 10m ", 600_000),
    ],
)
def test_a_duration_is_read(text, ms):
    assert parse_duration_ms(text) == ms


def test_durations_are_shown_from_large_to_small():
    assert show_duration_ms(0) == "0s"
    assert show_duration_ms(129_600_500) == "1d12h500ms"
    assert show_duration_ms(-90_000) == "-1m30s"
    assert show_duration_ns(1_001_001) == "1ms1us1ns"


def test_instants_are_shown_with_the_digits_they_need():
    assert show_ms(NOON_MS) == NOON
    assert show_ns(NOON_MS * MS + 1_000) == "2021-08-04T12:30:00.000001Z"
    assert show_ns(NOON_MS * MS + 1) == "2021-08-04T12:30:00.000000001Z"
    assert show_ms(-1) == "1969-12-31T23:59:59.999Z"
    assert show_ms(10**15) == "+33658-09-27T01:46:40.000Z"


# --- errors

WRONG = [
    ("2021-13-01..", 5, "month 13, needed 01 to 12"),
    ("2021-02-29..", 8, "day 29, needed 01 to 28"),
    ("now..2021-00-01", 10, "month 00"),
    ("2021-08-04T24:00..", 11, "hour 24, needed 00 to 23"),
    ("2021-08-04T12:60..", 14, "minute 60"),
    ("2021-08-04T23:59:60Z..", 17, "second 60"),
    ("2021-08-04T12:30:00.0123456789..", 29, "more than 9 digits"),
    ("2021-08-04T12..", 13, "needed ':'"),
    ("2021-08-04T..", 11, "needed a time"),
    ("2021-8-04..", 6, "found '-', needed a digit"),
    ("12021-08-04..", 4, "found '1', needed '-'"),
    ("2021-08-04T12:30 CEST..", 17, "found 'C', needed the end or a zone"),
    ("2021-08-04T12:30+2..", 16, "needed an offset as +05:30"),
    ("2021-08-04T12:30+02:0..", 19, "needed an offset as +05:30"),
    ("2021-08-04T12:30+24:00..", 17, "needed at most 23:59"),
    ("2021-08-04T12:30[Mars/Base]..", 17, "there is no zone 'Mars/Base'"),
    ("1969-12-31..", 0, "year 1969"),
    ("1970-01-01T00:00+01:00..", 0, "before 1970"),
    ("162808020012..", 0, "found 12 digits, needed 10 (seconds), 13 (ms), 16 (us) or 19 (ns)"),
    ("now..1628080200.5", 15, "needed a time"),
    ("yesterday..", 0, "needed a time"),
    ("nowish..", 3, "needed + or -"),
    ("-2..", 2, "found the end, needed a unit"),
    ("-2y..", 2, "found 'y', needed a unit"),
    ("-2h2h..", 4, "large to small"),
    ("-P1M..", 3, "no fixed length"),
    ("-P1Y2D..", 3, "no fixed length"),
    ("-PT..", 3, "ends early"),
    ("-P..", 2, "ends early"),
    ("-1.5ns..", 3, "less than a nanosecond"),
    ("--2h..", 1, "without a sign"),
    ("-2H..", 2, "found 'H', needed a unit"),
    ("end..", 0, "cannot begin at the end"),
    ("..start", 2, "cannot end at the start"),
    ("12:30", 5, "found no '..'"),
    ("2021-08-04T12:30:00-05", 22, "found no '..'"),
    ("2021-08-04", 10, "found no '..'"),
    ("", 0, "found no '..'"),
    ("now...-2h", 5, "found '.', needed a time"),
    ("orders:0", 8, "found no '-'"),
    ("orders:0:5", 10, "found no '-'"),
    ("orders:zero:1-2", 7, "found 'z', needed a number"),
    ("orders:0:1-2,orders:1:x-2", 22, "found 'x', needed a number"),
    ("orders:0:1-2,", 13, "found no ':'"),
    ("orders:0:9-5", 9, "from offset 9 is after to offset 5"),
    ("orders::1-2", 7, "found nothing, needed a number"),
    ("or/ders:0:1-2", 0, "'or/ders' is not a topic name"),
    ("orders:2147483648:1-2", 7, "too large"),
    ("orders:0:1-9223372036854775808", 11, "too large"),
]


@pytest.mark.parametrize(("text", "at", "says"), WRONG, ids=[text for text, *_ in WRONG])
def test_an_error_points_at_the_character(text, at, says):
    with pytest.raises(NotUnderstood) as caught:
        Span.parse(text)
    assert (caught.value.at, caught.value.where) == (at, "the span")
    assert says in caught.value.reason
    assert caught.value.exit_code == 2


def test_an_error_shows_the_text_with_a_pointer_under_it():
    with pytest.raises(NotUnderstood) as caught:
        Span.of("2021-13-01")
    assert str(caught.value) == (
        "--from cannot be understood: month 13, needed 01 to 12\n    2021-13-01\n         ^"
    )


def test_an_error_of_a_long_or_odd_text_stays_one_short_line():
    error = Cursor.of("x" * 500 + "\n\u202e!" + "y" * 500, "this").refuse("no", at=502)
    _, line, pointer = str(error).split("\n")
    assert len(line) <= 80
    assert line[len(pointer) - 1] == "!"
    assert line.count("?") == 2


def test_errors_survive_pickling():
    for make in (lambda: Span.parse("x.."), lambda: Span.parse("now..-2h")):
        with pytest.raises(UsageError) as caught:
            make()
        again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
        assert (type(again), str(again), again.hint) == (
            type(caught.value),
            str(caught.value),
            caught.value.hint,
        )


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"from_": "-2h", "to": "now", "for_": "1h"}, ["--from, --to and --for"]),
        ({"for_": "1h"}, ["--for needs --from or --to"]),
        ({"last": "1h", "from_": "-2h"}, ["--last and --from"]),
        ({"last": "1h", "to": "now"}, ["--last and --to"]),
        ({"last": "1h", "for_": "1h"}, ["--last and --for"]),
        ({"offsets": "0:1-2", "last": "1h"}, ["--offsets and --last"]),
        ({"offsets": "0:1-2", "from_": "start"}, ["--offsets and --from"]),
        ({"offsets": "0:1-2,orders:0:1-2"}, ["name a topic"]),
        ({"offsets": "0:1-5,0:4-6"}, ["0:1-5", "0:4-6"]),
        ({"offsets": "0:-,0:4-6"}, ["0:-", "0:4-6"]),
        ({"offsets": "0:1-5,0:3-3"}, ["0:1-5", "0:3-3"]),
        ({"from_": "start", "for_": "1h"}, ["1h from when?"]),
        ({"to": "end", "for_": "1h"}, ["1h before what?"]),
        ({"from_": "2h", "to": "2h"}, ["2h before what?"]),
    ],
)
def test_what_contradicts_is_refused_by_name(options, names):
    with pytest.raises(ContradictorySpan) as caught:
        Span.of(**options)
    assert all(name in str(caught.value) for name in names)
    assert caught.value.hint


def test_a_span_of_one_moment_is_empty_and_no_error():
    assert resolved("12:30..12:30") == shown("12:30:00.000", "12:30:00.000")
    assert Span.parse("now..1628080200").resolve(NOON_MS * MS).to_ms == NOON_MS
    with pytest.raises(EndsBeforeStart):
        Span.parse("now..1628080200").resolve(NOON_MS * MS + 1)
    assert Span.parse("0:5-5").offsets == (OffsetSpan(None, 0, 5, 5),)


@pytest.mark.parametrize(
    ("text", "both"),
    [
        ("2021-08-04T12:30..2021-08-04T12:29", (NOON, "2021-08-04T12:29:00.000Z")),
        ("now..-2h", ("now", "now-2h")),
        ("22:00..02:00", ("22:00:00Z", "02:00:00Z")),
        ("2021-08-04T14:30..12:30", ("2021-08-04T14:30:00.000Z", NOON)),
    ],
)
def test_a_span_that_is_known_to_end_before_it_begins_is_refused_at_once(text, both):
    with pytest.raises(EndsBeforeStart) as caught:
        Span.parse(text)
    assert (caught.value.from_, caught.value.to) == both
    assert all(each in str(caught.value) for each in both)


def test_one_that_turns_out_to_end_before_it_begins_is_refused_when_it_is_resolved():
    span = Span.parse("-2h..2021-08-04T12:30")
    assert str(span.resolve(NOW_NS - 4 * HOUR)) == shown("12:00:00.000", "12:30:00.000")
    with pytest.raises(EndsBeforeStart) as caught:
        span.resolve(NOW_NS)
    assert "2021-08-04T16:00:00.000Z (now-2h)" in str(caught.value)
    assert NOON in str(caught.value)


@pytest.mark.parametrize("text", ["-100000d..", "100000d..now"])
def test_before_1970_there_is_nothing(text):
    with pytest.raises(ContradictorySpan, match="times count from 1970"):
        Span.parse(text).resolve(NOW_NS)


def test_a_local_time_that_the_clocks_skip_is_refused():
    with pytest.raises(NotUnderstood, match="2021-03-28 02:30:00 does not exist") as caught:
        Span.of("2021-03-28T02:30", timezone="Europe/Berlin")
    assert "03:30:00" in (caught.value.hint or "")


def test_a_local_time_that_comes_twice_is_refused_until_the_offset_says_which():
    with pytest.raises(NotUnderstood, match="2021-10-31 02:30:00 exists twice") as caught:
        Span.of("2021-10-31T02:30", timezone="Europe/Berlin")
    for offset, ms in (("+02:00", 1_635_640_200_000), ("+01:00", 1_635_643_800_000)):
        assert offset in (caught.value.hint or "")
        found = Span.of(f"2021-10-31T02:30{offset}", timezone="Europe/Berlin")
        assert found.resolve(0).from_ms == ms


def test_a_time_of_today_that_comes_twice_is_refused_on_that_day_only():
    span = Span.of("02:30", timezone="Europe/Berlin")
    day = int(datetime(2021, 10, 31, 12, tzinfo=UTC).timestamp()) * SECOND
    assert span.resolve(day - 24 * HOUR).from_ms == 1_635_640_200_000 - 24 * 3_600_000
    with pytest.raises(NotUnderstood, match="exists twice") as caught:
        span.resolve(day)
    assert caught.value.written == "02:30:00[Europe/Berlin]"


# --- zones


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("UTC", "UTC"),
        ("utc", "UTC"),
        ("Z", "UTC"),
        ("+00:00", "UTC"),
        ("-00:00", "UTC"),
        ("+0530", "+05:30"),
        ("-08", "-08:00"),
        (" Europe/Berlin ", "Europe/Berlin"),
    ],
)
def test_a_zone_has_one_spelling(text, name):
    assert zone_name(text, where="timezone") == name


@pytest.mark.parametrize(
    "text",
    ["", "Europe", "europe/berln", "../UTC", "/etc/passwd", "right/UTC", "CEST", "+25", "\0", "5"],
)
def test_a_zone_that_is_none_is_named(text):
    with pytest.raises(NotUnderstood) as caught:
        zone_name(text, where="timezone")
    assert caught.value.where == "timezone"


def test_the_nearest_zones_are_named():
    with pytest.raises(NotUnderstood) as caught:
        Span.parse("..", timezone="europe/berln")
    assert "Europe/Berlin" in (caught.value.hint or "")


# --- the guide

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spans.md"
ROWS = re.findall(
    r"^\| `([^`]+)` \| `([^`]+)` \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.mark.parametrize(("written", "means"), ROWS, ids=[written for written, _ in ROWS])
def test_every_row_of_the_guide_is_true(written, means):
    assert resolved(written) == means


def test_the_guide_has_rows_and_shows_the_error_as_it_is():
    assert len(ROWS) > 12
    with pytest.raises(NotUnderstood) as caught:
        Span.of("2021-13-01")
    assert f"```text\n{caught.value}\n```" in GUIDE.read_text(encoding="utf-8")
