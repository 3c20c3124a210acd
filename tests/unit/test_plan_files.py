"""What lies in a plan's file, and what is left there when the disk is full."""

import os
from types import SimpleNamespace

import pytest

from playhead.cli.replay.run_replay import load_plan, save_plan
from playhead.errors import UsageError
from playhead.host.atomic_file import write_new, write_whole


@pytest.fixture
def full_disk(monkeypatch):
    """A disk that takes a file's name, and none of its bytes."""

    def refuse(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)


def test_a_pipe_is_not_a_plan_and_nobody_waits_for_it(tmp_path):
    pipe = tmp_path / "plan.json"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
        load_plan(pipe)


def test_a_file_of_terabytes_of_nothing_is_not_read(tmp_path):
    with (tmp_path / "plan.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="is not a plan: it has 1,099,511,627,776 bytes"):
        load_plan(tmp_path / "plan.json")


def test_a_plan_in_a_file_behind_a_link_is_looked_at(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "link").symlink_to("plan.json")
    with pytest.raises(UsageError, match="a plan of version"):
        load_plan(tmp_path / "link")


def test_a_full_disk_leaves_no_plan_behind_that_the_next_command_would_read(tmp_path, full_disk):
    plan = SimpleNamespace(as_json=lambda: "{}")
    with pytest.raises(UsageError, match="cannot write the plan"):
        save_plan(SimpleNamespace(), plan, tmp_path / "plan.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [write_whole, write_new])
def test_a_full_disk_keeps_nothing_of_a_file_that_was_not_written(tmp_path, full_disk, write):
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "file", "text")
    assert not list(tmp_path.iterdir())


def test_a_plan_does_not_go_where_the_link_of_another_leads(tmp_path):
    said = []
    (tmp_path / "plan.json").symlink_to(tmp_path / "elsewhere")
    run = SimpleNamespace(output=SimpleNamespace(say=said.append))
    save_plan(run, SimpleNamespace(as_json=lambda: "{}"), tmp_path / "plan.json")
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "plan.json").read_text() == "{}\n"
    assert said
