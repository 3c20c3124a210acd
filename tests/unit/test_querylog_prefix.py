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


@pytest.mark.parametrize("number", [str(MOST_LINE), "9" * 30, "9" * 5_000])
def test_a_line_number_that_no_server_counts_to_is_no_row(number: str) -> None:
    with pytest.raises(NotARow):
        prefix_of("%m [%p] %l ").read(f"2026-11-21 03:33:17.580 UTC [7] {number} LOG:  x")
