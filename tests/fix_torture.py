"""The long tests: all of them in `make torture`, a seeded sample of them everywhere else."""

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
    marked = [(item, item.get_closest_marker("torture")) for item in items]
    torture = sorted(
        (item for item, mark in marked if mark and mark.kwargs.get("sampled", True)),
        key=lambda item: item.nodeid,
    )
    if torture:
        random.Random(SEED).choice(torture).add_marker("sample")
