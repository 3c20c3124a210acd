"""No statement of a log takes long to read, whoever wrote it."""

import time

import pytest

from playhead.querylog.rows import MOST_LINE, NotARow
from playhead.querylog.stderr_prefix import KNOWN_PREFIXES, prefix_of


@pytest.mark.parametrize("prefix", KNOWN_PREFIXES)
def test_a_statement_of_separators_is_read_in_a_moment(prefix: str) -> None:
    """Any user of the logged server can send one; names without a limit took the square of its length."""
    known = prefix_of(prefix)
    line = "2026-11-21 03:33:17.580 UTC" + "|" * 8_000
    began = time.process_time()
    assert known.first.match(line) is None
    assert known.more.match(line) is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("prefix", "rest"),
    [
        ("%m %u %d %a %h %p ", " " * 2_000),
        ("%m [%p] %q%u@%d %a %h ", " [1] " + " @" * 600),
        ("%m %u %d %a %r %i %b %p ", " @" * 600),
        ("%m %-9p %9l %-9v %x ", " 1" + " " * 20_000),
        ("%m %p%x%Q%P ", " " + "1" * 20_000),
    ],
)
def test_names_side_by_side_are_told_apart_in_a_moment(prefix: str, rest: str) -> None:
    """A client chooses its name, and every place of the one was tried with every place of the others."""
    line = f"2026-11-21 03:33:17.580 UTC{rest}"
    began = time.process_time()
    with pytest.raises(NotARow):
        prefix_of(prefix).read(line)
    assert time.process_time() - began < 1


def test_names_with_spaces_in_them_are_told_apart() -> None:
    """The shortest names that let the rest of the line match, as the user's come first."""
    line = "2026-11-21 03:33:17.580 UTC me my db DB eaver 22 [7]: LOG:  statement: x"
    row = prefix_of("%m %u %d DB %a [%p]: ").read(line)
    assert (row.user, row.database, row.application) == ("me", "my db", "eaver 22")
    assert (row.session, row.message) == ("7", "statement: x")


def test_a_width_of_any_number_is_read() -> None:
    row = prefix_of(f"%m %-{'9' * 5_000}p ").read("2026-11-21 03:33:17.580 UTC 7    LOG:  x")
    assert row.session == "7"


@pytest.mark.parametrize("number", [str(MOST_LINE), "9" * 30, "9" * 5_000])
def test_a_line_number_that_no_server_counts_to_is_no_row(number: str) -> None:
    with pytest.raises(NotARow):
        prefix_of("%m [%p] %l ").read(f"2026-11-21 03:33:17.580 UTC [7] {number} LOG:  x")


def test_a_name_is_longer_where_the_next_one_would_be_too_long() -> None:
    database = "d" * 63
    row = f"2026-01-01 00:00:00.000 UTC [7] a b {database}=c LOG:  statement: SELECT 1"
    found = prefix_of("%m [%p] %u %d=%a ").read(row)
    assert (found.user, found.database) == ("a b", database)
