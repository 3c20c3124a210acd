"""Where two places on the same level meet: a file and an assignment, two spellings, no repository."""

from pathlib import Path

import pytest

from playhead.config.context import configure
from playhead.config.project import find_project_file
from playhead.errors import UsageError


@pytest.fixture(autouse=True)
def nobody_elses_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "PLAYHEAD_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PLAYHEAD_SANDBOX_DIR", str(tmp_path / "no-sandbox"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=of-file:1\nclient.id=of-file\n")
    return file


def test_an_assignment_changes_what_a_file_says(file: Path, tmp_path: Path) -> None:
    found = configure(
        {"kafka_config": str(file)}, assignments=["client.id=assigned"], folder=tmp_path
    ).kafka_properties
    assert (found["client.id"].value, found["client.id"].origin) == ("assigned", "-X")
    assert found["bootstrap.servers"].origin == str(file)


def test_the_flag_of_the_brokers_beats_both(file: Path, tmp_path: Path) -> None:
    flags = {"kafka_config": str(file), "bootstrap_servers": "flag:1"}
    found = configure(flags, assignments=["bootstrap.servers=assigned:1"], folder=tmp_path)
    assert found.kafka_properties["bootstrap.servers"].value == "flag:1"


def test_the_environment_does_not_beat_a_file_that_was_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:1")
    found = configure({"kafka_config": str(file)}, folder=tmp_path)
    assert found.kafka_properties["bootstrap.servers"].value == "of-file:1"


def test_two_spellings_of_one_property_in_one_place_are_refused(tmp_path: Path) -> None:
    two = ["sasl.mechanism=PLAIN", "sasl.mechanisms=SCRAM-SHA-512"]
    with pytest.raises(UsageError, match="sasl.mechanism and sasl.mechanisms in -X"):
        configure({}, assignments=two, folder=tmp_path)


def test_outside_of_a_repository_only_the_folders_own_file_counts(tmp_path: Path) -> None:
    (tmp_path / "playhead.toml").write_text("")
    deeper = tmp_path / "deeper"
    deeper.mkdir()
    assert find_project_file(deeper) is None
    assert find_project_file(tmp_path) == tmp_path / "playhead.toml"


def test_a_literal_secret_on_the_command_line_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        configure({}, assignments=["sasl.password=hunter22"], folder=tmp_path)
    assert "hunter22" not in str(caught.value)
    assert "${" in (caught.value.hint or "")
