"""Files that a user names are read up to a limit."""

from pathlib import Path

import pytest

from playhead import references
from playhead.config.kafka_properties import read_properties
from playhead.errors import BadValue, UsageError
from playhead.host import named_files
from playhead.kafka.groups import offsets_csv

ENDLESS = Path("/dev/zero")


@pytest.fixture(autouse=True)
def few_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "MOST_LETTERS", 1 << 20)


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(BadValue, match="more than 1 MiB"):
        references.resolve(f"file:{ENDLESS}", key="password", where="a test")
    with pytest.raises(UsageError, match="more than 1 MiB"):
        read_properties(ENDLESS)
    with pytest.raises(UsageError, match="more than 1 MiB"):
        offsets_csv.read_file(ENDLESS, ["group"])
    with pytest.raises(OSError, match="more than 1 MiB"):
        named_files.text_of(ENDLESS)


def test_a_file_of_the_longest_length_is_read(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("é" * (1 << 20), encoding="utf-8")
    assert named_files.text_of(file) == "é" * (1 << 20)
