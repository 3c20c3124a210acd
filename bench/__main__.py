"""`python -m bench [SUITE …]`: measures the promises, prints one table, exits 1 if one is missed."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import (
    capture,
    foundations,
    gaps,
    groups,
    ingest,
    journal,
    live,
    load,
    measure,
    queries,
    replay,
    topics,
    traffic,
    warm,
)
from bench.measure import Row

_HEADS = ["work", "ours", "against", "theirs", "measured", "bound", "verdict"]
_HEADS += ["CPU s per million: own + servers'", "peak MB"]
_RESULTS = Path(__file__).with_name("results")
_SUITES: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "capture": lambda _: capture.rows(),
    "foundations": lambda _: foundations.rows(),
    "gaps": lambda _: gaps.rows(),
    "groups": lambda _: groups.rows(),
    "ingest": lambda _: ingest.rows(),
    "journal": lambda _: journal.rows(),
    "live": lambda _: live.rows(),
    "queries": lambda given: queries.rows(quick=given.quick),
    "replay": replay.rows,
    "topics": lambda _: topics.rows(),
    "traffic": lambda _: traffic.rows(),
    "warm": lambda _: warm.rows(),
}


def main() -> None:
    given = _parser().parse_args()
    # Commands that are measured start their own engine, but for those of the suite `warm`.
    os.environ["PLAYHEAD_WARM"] = "off"
    rows = []
    for name in given.suites or list(_SUITES):
        for row in _SUITES[name](given):
            rows.append(row)
            sys.stderr.write(f"measured: {row.work}: {row.value:.3g}\n")
    _print(rows)
    _keep(rows)
    sys.exit(any(not row.is_kept for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=" or ".join(_SUITES))
    parser.add_argument("--rounds", type=int, default=measure.ROUNDS, help="of the replay suite")
    parser.add_argument("--records", type=int, default=load.RECORDS, help="of the replay suite")
    parts = ", ".join(replay.PARTS)
    parser.add_argument("--only", action="append", metavar="PART", help=f"replay: {parts}")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="replay: without the flat memory; queries: a hundredth, which measures nothing",
    )
    parser.add_argument("--baselines", action="store_true", help="replay: nothing of ours")
    return parser


def _print(rows: list[Row]) -> None:
    table = [_HEADS, *(row.cells() for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for cells in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        )
    for note in _notes(rows):
        print(note)


def _notes(rows: list[Row]) -> list[str]:
    return [f"- {row.work}: {row.note}" for row in rows if row.note]


def _keep(rows: list[Row]) -> None:
    """As JSON for machines and as Markdown for people, under the minute's name."""
    _RESULTS.mkdir(exist_ok=True)
    found = [vars(row) | {"measured": row.value, "kept": row.is_kept} for row in rows]
    file = _RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    file.write_text(json.dumps(found, indent=1), encoding="utf-8")
    lines = [_HEADS, ["---"] * len(_HEADS), *(row.cells() for row in rows)]
    table = ["| " + " | ".join(_escaped(cells)) + " |" for cells in lines]
    text = "\n".join([*table, "", *_notes(rows)]).rstrip() + "\n"
    file.with_suffix(".md").write_text(text, encoding="utf-8")


def _escaped(cells: list[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]


if __name__ == "__main__":
    main()
