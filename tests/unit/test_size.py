"""Sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from playhead.grammar.cursor import NotUnderstood
from playhead.grammar.size import parse_size_bytes, show_size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("1073741824", 1 << 30),
        ("10GiB", 10 << 30),
        ("10 GB", 10_000_000_000),
        ("1.5KiB", 1536),
        ("500mb", 500_000_000),
        ("2TiB", 2 << 40),
        ("7B", 7),
    ],
)
def test_a_size(text: str, count: int) -> None:
    assert parse_size_bytes(text) == count


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "10G", "1e9", "1PiB", "0.3KiB", "10 Gi B"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(NotUnderstood, match="the size"):
        parse_size_bytes(text)


@given(some.integers(0, 10**17), some.sampled_from(["", "kB", "MiB", "GB", "TiB"]))
def test_whole_numbers_of_a_unit_are_exact(count: int, unit: str) -> None:
    one = parse_size_bytes(f"1{unit}")
    assert parse_size_bytes(f"{count}{unit}") == count * one


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (10 << 30, "10 GiB")]
)
def test_a_size_shown(count: int, shown: str) -> None:
    assert show_size(count) == shown
