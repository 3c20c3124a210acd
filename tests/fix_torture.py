"""The long tests: all of them in `make torture`, a seeded sample of them everywhere else.

With `torture(one_of=N)`, the sample has an N-th of a test's cases; with `torture(sampled=False)`, none; of all
others together, it has one.
"""

import os
import random
import subprocess
from pathlib import Path
from zlib import crc32

import pytest


def _seed() -> str:
    """PLAYHEAD_SEED, or the commit: each change meets another sample, and the same one each time."""
    named = os.environ.get("PLAYHEAD_SEED")
    if named:
        return named
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return asked.stdout.strip() or "none"


SEED = _seed()


def pytest_report_header() -> str:
    return f"torture sample: a test by seed {SEED} (PLAYHEAD_SEED={SEED} repeats it)"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis draws by the commit, too, where fewer examples are drawn: a failure can be repeated."""
    if config.getoption("--hypothesis-profile") == "ci":
        config.option.hypothesis_seed = config.option.hypothesis_seed or crc32(SEED.encode())
    config.addinivalue_line("markers", "sample: a torture test that this run's seed has chosen")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    families: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: item.nodeid):
        mark = item.get_closest_marker("torture")
        if mark and mark.kwargs.get("sampled", True):
            one_of = mark.kwargs.get("one_of", 0)
            family = item.nodeid.partition("[")[0] if one_of else ""
            families.setdefault((family, one_of), []).append(item)
    for (family, one_of), cases in families.items():
        count = -(-len(cases) // one_of) if one_of else 1
        for item in random.Random(SEED + family).sample(cases, count):
            item.add_marker("sample")
