"""Files go where XDG says, and where nothing says so into the user's home or the system's own folders."""

from pathlib import Path

import pytest

from playhead.host import paths

PLACES = {
    "XDG_CACHE_HOME": paths.cache_dir,
    "XDG_STATE_HOME": paths.state_dir,
    "XDG_CONFIG_HOME": lambda: paths.config_file().parent,
}


@pytest.mark.parametrize("variable", PLACES)
def test_xdg_counts_for_everybody(variable, monkeypatch, tmp_path):
    monkeypatch.setenv(variable, str(tmp_path))
    assert PLACES[variable]() == tmp_path / "playhead"


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize(
    ("variable", "uid", "expected"),
    [
        ("XDG_CACHE_HOME", 0, "/var/cache/playhead"),
        ("XDG_STATE_HOME", 0, "/var/lib/playhead"),
        ("XDG_CONFIG_HOME", 0, "/home/me/.config/playhead"),
        ("XDG_CACHE_HOME", 1000, "/home/me/.cache/playhead"),
        ("XDG_STATE_HOME", 1000, "/home/me/.local/state/playhead"),
        ("XDG_CONFIG_HOME", 1000, "/home/me/.config/playhead"),
    ],
)
def test_without_xdg_root_and_users_have_their_own_places(
    variable, uid, expected, value, monkeypatch
):
    monkeypatch.setattr("os.geteuid", lambda: uid)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv(variable, value or "")
    if value is None:
        monkeypatch.delenv(variable)
    assert PLACES[variable]() == Path(expected)


def test_the_contexts_are_in_config_toml(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert paths.config_file() == tmp_path / "playhead" / "config.toml"


def test_the_sandbox_is_a_part_of_the_state_unless_it_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("PLAYHEAD_SANDBOX_DIR", raising=False)
    assert paths.sandbox_dir() == tmp_path / "playhead" / "sandbox"


def test_a_named_sandbox_is_made_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("PLAYHEAD_SANDBOX_DIR", "here")
    assert paths.sandbox_dir() == tmp_path / "here"
    monkeypatch.setenv("PLAYHEAD_SANDBOX_DIR", "~/there")
    assert paths.sandbox_dir() == Path("/home/me/there")
