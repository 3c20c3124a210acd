"""Counts over time: what the edges say, and how it is drawn in characters and as a picture.

PLAYHEAD_UPDATE_GOLDEN=1 writes the drawings anew; look at them before they are kept.
"""

import math
import os
import re
from itertools import pairwise
from pathlib import Path
from xml.dom import minidom

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.record import Slice
from playhead.timeline.svg_chart import picture
from playhead.timeline.text_chart import ChartSize, fitted, histogram, legend
from playhead.timeline.timeline import Bucket, Timeline, edges_between, labels

GOLDEN = Path(__file__).parents[1] / "golden" / "timeline"
UPDATE = bool(os.environ.get("PLAYHEAD_UPDATE_GOLDEN"))
T = 1_628_080_200_000
HOUR = 3_600_000
PLACES = (("laps", 0), ("laps", 1))


def waves() -> Timeline:
    """Two hours of a topic of two partitions."""
    edges = edges_between(T, T + 2 * HOUR, 120)
    at = [[0], [40]]
    for minute in range(120):
        for offsets, size in zip(at, (400, 100), strict=True):
            offsets.append(offsets[-1] + int(size * (1.2 + math.sin(minute / 9))))
    found = {place: tuple(its) for place, its in zip(PLACES, at, strict=True)}
    return Timeline(
        "laps", edges, found, {PLACES[0]: (0, at[0][-1] + 7), PLACES[1]: (30, at[1][-1])}
    )


def outage(timeline: Timeline) -> list[Slice]:
    """Twelve minutes of both partitions, and four offsets more."""
    first, second = (timeline.offsets[place] for place in PLACES)
    return [
        Slice("laps", 0, first[50], first[62] + 90),
        Slice("laps", 0, first[100] + 2, first[100] + 6),
        Slice("laps", 1, second[50], second[62]),
        Slice("others", 0, 0, 1_000),
    ]


def test_records_that_are_older_than_their_bucket_are_told():
    minutes = tuple(T + minute * 60_000 for minute in range(0, 60, 10))
    timeline = Timeline("laps", minutes, {PLACES[0]: (5, 15, 25, 25, 35, 45)})
    # A little out of order is nothing; what has no time, or stands before it all, says nothing.
    fine = timeline.disorder_in(PLACES[0], [2, 16, 30, 60], [0, T + 60_000, -1, T + 45 * 60_000])
    assert (fine.looked_at, fine.earlier, fine.text()) == (4, 0, None)
    found = timeline.disorder_in(PLACES[0], [16, 46, 47], [T + 600_000, T + 60_000, T])
    assert (found.looked_at, found.earlier) == (3, 2)
    assert found.text() == (
        "clocks disagree: 2 of 3 sampled records are older than their bucket, "
        "first laps:0 offset 46 from 2021-08-04T12:31:00.000Z"
    )


def is_golden(name: str, said: str) -> None:
    file = GOLDEN / name
    if UPDATE:
        file.write_text(said, encoding="utf-8")
    assert said == file.read_text(encoding="utf-8")


# --- counts


def test_buckets_count_the_offsets_between_their_edges():
    timeline = Timeline("laps", (T, T + 10, T + 20), {PLACES[0]: (5, 8, 8), PLACES[1]: (0, 1, 4)})
    assert timeline.buckets() == [Bucket(T, T + 10, 4), Bucket(T + 10, T + 20, 3)]
    assert timeline.counted == 7


def test_what_is_missing_counts_where_it_stands():
    timeline = Timeline("laps", (T, T + 10, T + 20), {PLACES[0]: (5, 8, 20)})
    found = timeline.buckets([Slice("laps", 0, 0, 7), Slice("laps", 0, 7, 12)])
    assert [each.missing for each in found] == [3, 4]


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=12),
    st.tuples(st.integers(0, 70), st.integers(1, 40)),
)
def test_each_missing_offset_counts_once_in_its_own_bucket(steps, run):
    at = tuple(sum(steps[: index + 1]) for index in range(len(steps)))
    timeline = Timeline("laps", tuple(range(len(at))), {PLACES[0]: at})
    lost = Slice("laps", 0, run[0], run[0] + run[1])
    for bucket, (start, end) in zip(timeline.buckets([lost]), pairwise(at), strict=True):
        assert bucket.missing == len(set(range(start, end)) & set(range(*run_of(lost))))


def run_of(slice_: Slice) -> tuple[int, int]:
    return slice_.from_offset, slice_.to_offset


def test_what_stands_outside_is_counted_too():
    timeline = waves()
    assert (timeline.before, timeline.after) == (10, 7)
    assert timeline.as_document()["records"] == timeline.counted


def test_an_offset_for_each_edge_is_needed():
    with pytest.raises(ValueError, match="needed an offset for each"):
        Timeline("laps", (T, T + 1), {PLACES[0]: (1, 2, 3)})


@given(st.integers(0, 2**42), st.integers(0, 2**40), st.integers(1, 500))
def test_edges_rise_and_are_about_as_far_apart(start, length, buckets):
    edges = edges_between(start, start + length, buckets)
    assert (edges[0], edges[-1]) == (start, start + max(length, 1))
    steps = {other - one for one, other in pairwise(edges)}
    assert min(steps) >= 1
    assert max(steps) - min(steps) <= 1
    assert len(edges) - 1 == min(buckets, max(length, 1))


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), min_size=1), st.integers(1, 40))
def test_fewer_columns_hold_the_same_records(counts, columns):
    buckets = [Bucket(T + i, T + i + 1, n, m) for i, (n, m) in enumerate(counts)]
    found = fitted(buckets, columns)
    assert len(found) <= columns
    assert sum(each.offsets for each in found) == sum(n for n, _ in counts)
    assert sum(each.missing for each in found) == sum(m for _, m in counts)
    assert (found[0].from_ms, found[-1].to_ms) == (T, T + len(counts))


@pytest.mark.parametrize(
    ("lasting_ms", "first"),
    [
        (500, "12:30:00.000"),
        (60_000, "12:30:00"),
        (HOUR, "12:30"),
        (24 * HOUR, "08-04 12:30"),
        (240 * HOUR, "2021-08-04"),
    ],
)
def test_times_are_as_short_as_they_can_be(lasting_ms, first):
    assert labels([T, T + lasting_ms])[0] == first


@pytest.mark.parametrize(
    ("lasting_ms", "zone", "first"),
    [
        (500, "Europe/Berlin", "14:30:00.000"),
        (60_000, "+05:30", "18:00:00"),
        (HOUR, "America/New_York", "08:30"),
        (24 * HOUR, "Asia/Tokyo", "08-04 21:30"),
        (240 * HOUR, "Pacific/Kiritimati", "2021-08-05"),
    ],
)
def test_times_are_those_of_the_zone_that_was_asked_for(lasting_ms, zone, first):
    buckets = [Bucket(T, T + lasting_ms, 1)]
    assert labels([T, T + lasting_ms], zone)[0] == first
    assert histogram(buckets, ChartSize(60), zone)[-1].strip().startswith(f"{first} ")
    assert f">{first}<" in picture("laps", "caption", buckets, zone=zone)


# --- drawings


@pytest.mark.parametrize("width", [60, 100])
def test_a_histogram_in_blocks(width):
    buckets = waves().buckets(outage(waves()))
    missing = sum(each.missing for each in buckets)
    paper = ChartSize(width)
    lines = [*histogram(buckets, paper), legend(missing, "postgres:laps", paper)]
    assert max(map(len, lines)) <= width
    is_golden(f"blocks-{width}.txt", "\n".join(lines) + "\n")


def test_a_histogram_in_plain_characters():
    lines = histogram(waves().buckets(outage(waves())), ChartSize(72, has_blocks=False))
    assert all(line.isascii() for line in lines)
    is_golden("plain-72.txt", "\n".join(lines) + "\n")


def test_colour_adds_nothing_but_colour():
    buckets = waves().buckets(outage(waves()))
    coloured = histogram(buckets, ChartSize(80, has_colour=True))
    assert any("\x1b[31m" in line for line in coloured)
    bare = [re.sub(r"\x1b\[[0-9]+m", "", line) for line in coloured]
    assert bare == histogram(buckets, ChartSize(80))


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)), min_size=1, max_size=200),
    st.integers(1, 200),
    st.integers(1, 12),
    st.booleans(),
)
def test_any_histogram_fits_and_shows_what_is_there(counts, width, height, has_blocks):
    buckets = [Bucket(T + i, T + i + 1, n + m, m) for i, (n, m) in enumerate(counts)]
    paper = ChartSize(width, height, has_blocks=has_blocks)
    lines = histogram(buckets, paper)
    assert len(lines) == height + 2
    assert max(map(len, lines)) <= max(width, 40)
    bars = "".join(lines[:height])
    mark = "░" if has_blocks else "."
    assert (mark in bars) == any(m for _, m in counts)
    assert (
        any(sign in bars for sign in "▁▂▃▄▅▆▇█#") or all(n == 0 for n, _ in counts) or mark in bars
    )


def test_nothing_at_all_is_drawn_as_nothing():
    assert "".join(histogram([Bucket(T, T + 1, 0)], ChartSize(40, 2))[:2]).split() == [
        "0",
        "│",
        "│",
    ]


# --- pictures


def test_a_picture_of_a_gap():
    timeline = waves()
    svg = picture(
        "laps", timeline.caption(), timeline.buckets(outage(timeline)), absent_from="postgres:laps"
    )
    assert "prefers-color-scheme: dark" in svg
    is_golden("gap.svg", svg)


def test_a_picture_without_a_gap_says_so():
    svg = picture("laps", "", waves().buckets(), absent_from="postgres:laps")
    assert "0 missing in postgres:laps" in svg
    assert 'class="missing"' not in svg


@given(st.text(), st.text())
def test_any_text_leaves_a_picture_that_can_be_read(title, absent_from):
    svg = picture(title, title, [Bucket(T, T + 5, 3, 1)], absent_from=absent_from)
    minidom.parseString(svg.encode())  # noqa: S318 - it is our own


def test_texts_are_escaped():
    svg = picture("<a href='x'>&", '"', [Bucket(T, T + 5, 3)])
    assert "<a " not in svg
    assert "&lt;a href=&#x27;x&#x27;&gt;&amp;" in svg
