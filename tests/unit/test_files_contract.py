"""Archives in local folders pass the suites of sources and targets, in every format."""

from dataclasses import replace
from pathlib import Path

import pytest

from playhead.files.source import FilesSource
from playhead.files.target import FilesTarget
from playhead.testing import exercise_source, exercise_target, sample_records
from tests.fix_archives import ENDS, archive, everything

FORMATS = ["parquet", "json", "csv"]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("ends", [ENDS, {0: [10], 1: [10]}, {0: range(1, 9), 1: [4, 5]}])
def test_source(tmp_path: Path, format_: str, ends) -> None:
    root = str(tmp_path / "archive")
    archive(root, format_, ends=ends)
    exercise_source(lambda: FilesSource(root, format_), sample_records())


@pytest.mark.parametrize("format_", FORMATS)
def test_source_of_two_replays_that_overlap(tmp_path: Path, format_: str) -> None:
    root = str(tmp_path / "archive")
    archive(root, format_, ends={0: [4, 10], 1: [10]})
    archive(root, format_, replay_id="two", ends={0: [5, 6, 10], 1: [4, 10]})
    exercise_source(lambda: FilesSource(root, format_), sample_records())


@pytest.mark.parametrize("format_", FORMATS)
def test_target(tmp_path: Path, format_: str) -> None:
    root = str(tmp_path / "archive")

    def damage() -> None:
        last = max(
            tmp_path.glob("archive/topic=*/*/[!.]*"), key=lambda file: file.stat().st_mtime_ns
        )
        last.write_bytes(last.read_bytes()[:-3])

    exercise_target(
        lambda: FilesTarget(root, format_),
        lambda: everything(root, format_),
        replaces=True,
        exclusive=True,
        bad_record=replace(sample_records()[0], headers=(("\ud800", b""),)),
        damage=damage,
    )
