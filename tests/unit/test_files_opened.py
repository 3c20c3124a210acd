"""The programs that people have open a Parquet archive as one table; none of our code reads it here."""

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from playhead.testing import sample_records
from tests.fix_archives import archive

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    archive(str(tmp_path / "archive"))
    return tmp_path / "archive"


def wanted() -> list[tuple[str, int, int, bytes | None]]:
    return sorted(
        (each.topic, each.partition, each.offset, each.value) for each in sample_records()
    )


def rows_of(frame: pd.DataFrame) -> list[tuple[str, int, int, bytes | None]]:
    columns = (frame[name].tolist() for name in ("topic", "partition", "offset", "value"))
    return sorted(
        (str(topic), int(partition), int(offset), value if value is None else bytes(value))
        for topic, partition, offset, value in zip(*columns, strict=True)
    )


def test_pandas_opens_the_folder(root: Path) -> None:
    frame = pd.read_parquet(root)
    assert rows_of(frame) == wanted()
    assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"


def test_pyarrow_opens_the_folder_as_a_table_and_as_a_dataset(root: Path) -> None:
    assert rows_of(pq.read_table(root).to_pandas()) == wanted()
    found = ds.dataset(root, partitioning="hive").to_table(filter=ds.field("partition") == 1)
    assert rows_of(found.to_pandas()) == [each for each in wanted() if each[1] == 1]


def test_duckdb_opens_the_folder(root: Path) -> None:
    files = f"read_parquet('{root}/**/*.parquet', hive_types = {{'partition': INTEGER}})"
    asked = f'SELECT topic, partition, "offset", value FROM {files}'
    with duckdb.connect() as connection:
        found = connection.execute(asked).fetchall()
    assert sorted(found) == wanted()
