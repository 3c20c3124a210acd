"""Tables never fold a cell: columns of zeros go first, then names are folded, then rows stand upright."""

import os
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.cli.output import Output
from playhead.cli.replay.render import OPTIONAL_OF_PLAN
from playhead.cli.tables import fitted, table_text, upright

UPDATES = bool(os.environ.get("PLAYHEAD_UPDATE_GOLDEN"))
GOLDEN = Path(__file__).parents[1] / "golden" / "tables"
PROOF = [
    {
        "topic": "telemetry", "partition": at, "planned": 10_000_000 + at, "read": 9_999_994,
        "written": 9_999_000, "filtered": 994, "outside": 0, "dead": 0, "skipped": 0, "absent": 6,
        "unexplained": 0, "missing": 0, "duplicate": 0, "foreign": 0, "late": 0, "adds_up": True,
    }
    for at in range(2)
]  # fmt: skip
GAPS = [
    {
        "topic": "telemetry", "partition": 2, "from_offset": 400_000, "to_offset": 410_000,
        "offsets": 10_000, "records": 9_994, "first": "2021-08-04T14:02:11.020Z",
        "last": "2021-08-04T14:31:00.480Z", "share": "0.10 %", "state": "missing",
    },
    {
        "topic": "telemetry", "partition": 3, "from_offset": None, "to_offset": 12, "offsets": None,
        "records": None, "first": "2021-08-04T14:02:11.020Z", "last": None, "share": None,
        "state": "expired",
    },
]  # fmt: skip


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def drawn(
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    rows: list[dict[str, object]],
    optional: tuple[str, ...] = (),
) -> str:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    Output().emit({}, rows, optional=optional)
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize(("name", "rows"), [("proof", PROOF), ("gaps", GAPS)])
def test_a_table_fits_the_terminal_with_every_digit(monkeypatch, columns, name, rows):
    text = drawn(monkeypatch, columns, rows)
    golden = GOLDEN / f"{name}-{columns}.txt"
    if UPDATES:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= columns
    for row in rows:
        for value in row.values():
            assert value in (None, 0, True) or str(value) in text


PLAN = [
    {
        "topic": "telemetry", "partition": at, "from_offset": 13_036, "span_end": 19_600,
        "to_offset": 19_648, "planned": 6_612, "earliest": 1_204, "stable_end": 43_200,
        "high_watermark": 43_201,
    }
    for at in range(2)
]  # fmt: skip


@pytest.mark.parametrize("columns", [60, 80])
def test_a_plan_keeps_whole_names_and_loses_the_columns_that_say_least(monkeypatch, columns):
    text = drawn(monkeypatch, columns, PLAN, OPTIONAL_OF_PLAN)
    golden = GOLDEN / f"plan-{columns}.txt"
    if UPDATES:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    assert all(f"{row['from_offset']}" in text and f"{row['planned']}" in text for row in PLAN)


cells = st.text(st.sampled_from("0123456789ab東"), min_size=1, max_size=12)


tables = st.integers(1, 8).flatmap(
    lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(tables, st.integers(10, 90))
def test_a_cell_is_shown_whole_or_its_column_had_only_zeros(rows, columns):
    heads = [f"COLUMN-{at}" for at in range(len(rows[0]))]
    fitting = fitted(heads, rows, columns)
    _, shown = fitting if fitting is not None else (heads, rows)
    left = {cell for row in rows for cell in row} - {cell for row in shown for cell in row}
    assert left <= {"0"}


def test_rows_stand_upright_with_an_empty_line_between():
    assert upright(["A", "LONG"], [["1", "x"], ["2", ""]]) == "A: 1\nLONG: x\n\nA: 2\nLONG:\n"


def test_in_a_pipe_a_table_keeps_its_columns_and_names(capsys):
    Output().emit({}, PROOF)
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == [name.upper().replace("_", "-") for name in PROOF[0]]
    assert len(rows) == len(PROOF)
    assert table_text([], [], is_coloured=False) == ""
    for form in ("table", "csv", "jsonl"):
        Output(form).emit({}, [])
    assert capsys.readouterr().out == ""  # no empty line
