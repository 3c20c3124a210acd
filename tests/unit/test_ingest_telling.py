"""The sum of everything that arrived, what is said of it while it runs, and lines of datagrams."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.ingest.counts import Counts
from playhead.ingest.loop import lines_of
from playhead.ingest.status_lines import NotAllArrived, ProducerStatus, StatusFigures, StatusLines

MIB = 1 << 20


def counts(**more: int) -> Counts:
    """With as many records as there are in all places."""
    places = ("delivered", "dead_lettered", "waiting", "refused", "dropped", "failed")
    total = sum(more.get(place, 0) for place in places)
    return Counts(**{"datagrams": total, "records": total, "kernel_drops": 0} | more)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 10**6), min_size=6, max_size=6), st.integers(-3, 3))
def test_the_sum_comes_out_or_it_does_not(parts, off: int) -> None:
    names = ("delivered", "dead_lettered", "waiting", "refused", "dropped", "failed")
    whole = Counts(records=sum(parts) + off, **dict(zip(names, parts, strict=True)))
    assert whole.adds_up is (off == 0)
    assert whole.as_document()["adds_up"] is (off == 0)


def test_lost_is_what_reached_the_port_and_is_in_no_topic() -> None:
    found = counts(delivered=90, dead_lettered=4, refused=1, dropped=2, failed=3)
    assert found.lost == 6
    assert replace(found, kernel_drops=10).lost == 16
    assert replace(found, kernel_drops=None).lost == 6
    assert found.shown() == (
        "100 records = 90 delivered + 4 dead letters + 1 refused + 2 dropped (memory full) + 3 failed; "
        "dropped by the kernel: 0"
    )
    assert "does not report its drops here" in Counts().shown()


@pytest.mark.parametrize(
    ("found", "said", "hint"),
    [
        (counts(delivered=1, dropped=2), "2 dropped because", "--max-memory"),
        (counts(kernel_drops=3), "3 dropped by the kernel", "--receive-buffer"),
        (replace(counts(refused=4), refusals={"no JSON": 4}), "4 refused (no JSON: 4)", "dlq"),
        (counts(failed=5), "5 failed (too large)", None),
    ],
)
def test_what_is_lost_is_said_with_the_way_out(found: Counts, said: str, hint: str | None) -> None:
    error = NotAllArrived(found, reasons=["too large"])
    assert said in error.message
    assert error.exit_code == 1
    assert (hint in (error.hint or "")) if hint else error.hint is None


def teller(every_s: float = 5) -> StatusLines:
    return StatusLines(every_s, 64 * MIB, 8 * MIB)


def test_figures_come_now_and_then_and_never_the_same_twice() -> None:
    told = teller()
    assert told.lines(counts(), 0) == []
    assert told.lines(counts(delivered=100), 4.9) == []
    assert told.lines(counts(delivered=1000), 5) == [
        "200 datagrams/s; 1,000 records = 1,000 delivered; dropped by the kernel: 0"
    ]
    assert told.lines(counts(delivered=1000), 10) == []
    assert told.lines(counts(delivered=1500), 15)[0].startswith("100 datagrams/s")


def test_drops_are_said_when_they_begin_and_when_they_are_over() -> None:
    told = teller(every_s=100)
    told.lines(counts(waiting=10), 0)
    (began,) = told.lines(counts(waiting=1_000, dropped=5), 0.2)
    assert began.startswith("warning: 64 MiB of memory are full, 1,000 records wait")
    assert told.lines(counts(waiting=1_000, dropped=50), 0.4) == []
    assert told.lines(counts(delivered=900, waiting=100, dropped=50), 0.6) == []
    (over,) = told.lines(counts(delivered=1_000, dropped=50), 1.5)
    assert over == "memory is available again: 50 records were dropped in 0.2 s"
    (again,) = told.lines(counts(delivered=1_000, waiting=9, dropped=51), 1.7)
    assert again.startswith("warning")


def test_a_broker_that_confirms_nothing_is_said_once_and_its_return_too() -> None:
    told = teller(every_s=100)
    told.lines(counts(delivered=5), 10)
    told.lines(counts(delivered=5, waiting=1), 10.2)
    assert told.lines(counts(delivered=5, waiting=9), 11.9) == []
    (silent,) = told.lines(
        counts(delivered=5, waiting=20), 12.3, ProducerStatus("connection refused")
    )
    assert "confirmed nothing for 2 s, 20 records wait: connection refused" in silent
    assert told.lines(counts(delivered=5, waiting=30), 20) == []
    (back,) = told.lines(counts(delivered=6, waiting=29), 21.2)
    assert back == "the broker confirms records again, after 11.2 s"


def test_silence_while_nothing_waits_is_no_silence() -> None:
    told = teller(every_s=100)
    assert [told.lines(counts(delivered=5), float(now)) for now in range(60)] == [[]] * 60
    assert told.lines(counts(delivered=5, waiting=1), 60) == []


def test_programs_get_the_counts_as_often_as_they_want() -> None:
    told = StatusFigures(every_s=2)
    assert [told.lines(counts(), now_s) for now_s in (0, 1.9)] == [[], []]
    (line,) = told.lines(counts(delivered=3), 2)
    assert json.loads(line)["delivered"] == 3
    assert told.lines(counts(delivered=3), 3.9) == []
    assert told.lines(counts(delivered=3), 4) == [line]


def test_losses_are_said_beside_the_figures() -> None:
    told = teller()
    told.lines(counts(), 0)
    bad = replace(counts(delivered=1, failed=2, refused=3, kernel_drops=4), refusals={"no key": 3})
    assert told.lines(bad, 5, ProducerStatus(reasons=["too large"]))[:3] == [
        "warning: the kernel dropped 4 datagrams, its buffer of 8 MiB being full",
        "warning: 2 records failed (too large)",
        "warning: 3 records were refused (no key: 3 so far)",
    ]


@pytest.mark.parametrize(
    ("datagram", "lines"),
    [
        (b"", []),
        (b"\n\r\n", []),
        (b"a", [b"a"]),
        (b"a\nb\r\n", [b"a", b"b"]),
        (b"a\rb\n\nc", [b"a\rb", b"c"]),
        (b"\xff\n\x00", [b"\xff", b"\x00"]),
    ],
)
def test_lines_of_a_datagram(datagram: bytes, lines: list[bytes]) -> None:
    assert lines_of(datagram) == lines
