"""What `playhead capture` refuses before it begins, and what it says while it runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from playhead.capture.address import BadPlace, HostPort, parse_host, parse_place
from playhead.capture.counts import Counts, NotAllCaptured, StatusReporter
from playhead.capture.proxy import Proxy, Setting
from playhead.capture.recorder import RecorderConfig
from playhead.cli.app import main

OUT = ["--upstream", "127.0.0.1:9", "--out"]


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["capture", *words])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--listen", "0.0.0.0:0"], 6, "other machines can reach"),
        (["--listen", "0.0.0.0:0", "--listen-anywhere", "--allow", "10.0.0.0/8"], 2, "--advertise"),
        (["--listen", "0.0.0.0:0", "--listen-anywhere"], 2, "--allow"),
        (["--listen", "127.0.0.1:0", "--allow", "10.0.0.0/8"], 2, "--listen-anywhere"),
        (["--listen", "0.0.0.0:0", "--listen-anywhere", "--allow", "10.0.0.1/8"], 2, "network"),
        (["--listen", "nowhere"], 2, "expected HOST:PORT"),
        (["--listen", "127.0.0.1:70000"], 2, "port 70000"),
        (["--listen", "127.0.0.1:0", "--dry-run", "--advertise", ""], 2, "expected HOST"),
        (
            ["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "kafka.example:9092"],
            2,
            "without a port",
        ),
        (["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "a b"], 2, "expected HOST"),
        (["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "h\x1b[2J"], 2, "expected HOST"),
        (["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "h" * 40_000], 2, "expected HOST"),
        (
            ["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "kafka\u202e.example"],
            2,
            "expected HOST",
        ),
        (
            ["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "fe80::1%\x1b[2J"],
            2,
            "expected HOST",
        ),
        (["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "[::]"], 2, "every address"),
        (["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "0"], 2, "every address"),
        (["--listen", "127.0.0.1:0", "--dry-run", "--advertise", "0.0.0.0"], 2, "every address"),  # noqa: S104
        (["--listen", "127.0.0.1:0", "--on-slow", "wait"], 2, "block or drop"),
        (["--listen", "127.0.0.1:0", "--max-memory", "1kB"], 2, "at least 1,048,576 bytes"),
        (["--listen", "127.0.0.1:0", "--redact", "card"], 2, "does not start with $"),
        (["--listen", "127.0.0.1:0", "--rotate", "soon"], 2, "--rotate"),
        (["--listen", "127.0.0.1:0", "--rotate", "0B"], 2, "more than nothing"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_there(
    words: list[str], code: int, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "snapshot"
    found, _, said = ended(capsys, *OUT, str(folder), *words)
    assert found == code, said
    assert why in said
    assert not folder.exists()


@pytest.mark.parametrize(
    ("said", "host"),
    [("kafka-1.example.", "kafka-1.example."), ("10.1.2.3", "10.1.2.3"), ("[2001:db8::1]", "2001:db8::1"),
     ("host_1", "host_1"), ("k", "k")],
)  # fmt: skip
def test_clients_get_a_host_by_its_name_or_address(said: str, host: str) -> None:
    assert parse_host("--advertise", said) == host


def test_the_address_that_is_told_is_the_one_that_others_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was the name that clients get: `listening at 127.0.0.1` of a port that is open to a network."""
    words = ["--listen", "0.0.0.0:0", "--listen-anywhere", "--allow", "10.0.0.0/8"]
    words += ["--advertise", "kafka.example", "--dry-run"]
    code, _, said = ended(capsys, *OUT, str(tmp_path / "snapshot"), *words)
    assert code == 0, said
    [port] = re.findall(r"listening at 0\.0\.0\.0:(\d+) for", said)
    assert f"clients use kafka.example:{port} as their broker" in said


def test_a_dry_run_takes_the_port_and_makes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "snapshot"
    words = [*OUT, str(folder), "--listen", "127.0.0.1:0", "--rotate", "1GiB", "--rotate", "1h"]
    code, out, said = ended(capsys, *words, "--dry-run", "-o", "json")
    assert code == 0, said
    assert json.loads(out) == {"upstream": "127.0.0.1:9", "out": str(folder), "dry_run": True}
    assert "for 127.0.0.1:9" in said
    assert not folder.exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as door:
        place = f"127.0.0.1:{door.getsockname()[1]}"
        code, _, said = ended(capsys, *OUT, str(tmp_path), "--listen", place)
    assert code == 1
    assert f"cannot listen at {place}" in said


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("broker:9092", HostPort("broker", 9092)),
        ("[::1]:1", HostPort("::1", 1)),
        ("10.0.0.1:65535", HostPort("10.0.0.1", 65_535)),
    ],
)
def test_a_place_is_read_and_shown_again(text: str, place: HostPort) -> None:
    assert parse_place("--upstream", text) == place
    assert str(place) == text


@pytest.mark.parametrize(
    "text", ["", "broker", "broker:", ":1", "a:0", "a b:1", "::1:9092", "u@h:1"]
)
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadPlace):
        parse_place("--upstream", text)


def test_loopback_is_told_from_what_others_reach() -> None:
    inside = ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"]
    every = ["0.0.0.0:1", "[::]:1", "0:1", "0x0:1", "0.0:1"]
    outside = ["10.0.0.1:1", "example.org:1", "1:1"]
    assert [parse_place("", each).is_loopback for each in inside] == [True] * 4
    assert [parse_place("", each).is_loopback for each in every + outside] == [False] * 8
    assert [parse_place("", each).is_every_address for each in every] == [True] * 5
    assert [parse_place("", each).is_every_address for each in inside + outside] == [False] * 7


def counts(**more: Any) -> Counts:
    return Counts(**({"pairs": 10, "written": 10} | more))


def test_troubles_and_brokers_are_said_once_and_figures_now_and_then() -> None:
    teller = StatusReporter(5)
    found = counts(troubles={"a client speaks TLS": 1}, brokers={"b:1": "h:2"})
    assert teller.lines(found, 0, None) == [
        "warning: a client speaks TLS",
        "h:2 leads to broker b:1",
    ]
    assert teller.lines(found, 1, "disk full") == [
        "warning: recording has stopped, clients are not affected: disk full"
    ]
    later = counts(troubles={"a client speaks TLS": 9}, brokers={"b:1": "h:2"}, pairs=12, dropped=2)
    said = teller.lines(later, 6, "disk full")
    assert said[0] == "warning: 2 pairs were dropped"
    assert said[1].startswith("12 pairs = 10 written + 2 dropped; ")
    assert teller.lines(later, 12, "disk full") == []


def test_what_is_still_to_be_written_is_said_once_and_only_if_it_will_be() -> None:
    teller, found = StatusReporter(5), counts(pairs=12)
    assert teller.lines(found, 0, "disk full", is_stopping=True)[1:] == []
    said = teller.lines(found, 1, None, is_stopping=True)
    assert said == [
        "stopping; 2 pairs are still to be written; Ctrl-C again does not wait for that"
    ]
    assert teller.lines(found, 2, None, is_stopping=True) == []


def test_the_sum_of_the_pairs_comes_out() -> None:
    found = counts(pairs=20, left_out=3, dropped=4, unreadable=1)
    assert (found.waiting, found.lost) == (2, 7)
    assert found.as_document()["lost"] == 7
    assert "7 of 20 pairs" in str(NotAllCaptured(found, reason=None))


@pytest.mark.parametrize(
    ("dropped", "reason", "why", "has_hint"),
    [
        (0, None, "1 of 20 pairs are missing in the snapshot: 1 were unreadable", False),
        (4, None, "they arrived faster than they could be written; 1 were unreadable", True),
        (4, "disk full", "disk full; 1 were unreadable", False),
    ],
)
def test_pairs_that_could_not_be_parsed_did_not_arrive_too_fast(
    dropped: int, reason: str | None, why: str, has_hint: bool
) -> None:
    found = counts(pairs=20, dropped=dropped, unreadable=1, written=19 - dropped)
    told = NotAllCaptured(found, reason=reason)
    assert str(told).endswith(why)
    assert bool(told.hint) == has_hint


def test_what_the_recorder_still_writes_after_a_stop_is_not_dropped(tmp_path: Path) -> None:
    here = HostPort("127.0.0.1", 0)
    proxy = Proxy(Setting(here, HostPort("127.0.0.1", 9), RecorderConfig(str(tmp_path))))
    proxy.tap.handed = 5
    proxy.stop()
    proxy.tap.connection_lost(None)  # The recorder closes its end first, and then tells its counts.
    assert (proxy.counts().dropped, proxy.counts().waiting) == (0, 5)
    proxy.ended.set()
    assert (proxy.counts().dropped, proxy.counts().waiting) == (5, 0)
    proxy.doors.close()
