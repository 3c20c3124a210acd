"""`python -m bench [SUITE …]`: measures the promises, prints one table, exits 1 if one is missed."""

import json
import sys
import time
from pathlib import Path

from bench import foundations
from bench.measure import Row

_HEADS = ["work", "ours", "against", "theirs", "measured", "bound", ""]
_RESULTS = Path(__file__).with_name("results")
_SUITES = {"foundations": foundations.rows}


def main() -> None:
    wanted = sys.argv[1:] or list(_SUITES)
    rows = []
    for name in wanted:
        for row in _SUITES[name]():
            rows.append(row)
            sys.stderr.write(f"measured: {row.work}: {row.value:.3g}\n")
    _print(rows)
    _keep(rows)
    sys.exit(any(not row.is_kept for row in rows))


def _print(rows: list[Row]) -> None:
    table = [_HEADS, *(row.cells() for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for cells in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        )


def _keep(rows: list[Row]) -> None:
    _RESULTS.mkdir(exist_ok=True)
    found = [vars(row) | {"measured": row.value, "kept": row.is_kept} for row in rows]
    file = _RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    file.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
