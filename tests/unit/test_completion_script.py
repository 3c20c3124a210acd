"""The script of each shell is put where the shell finds it, once, and what it prints is that script."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import playhead
from playhead.cli import completion_script
from playhead.cli.app import main

SOURCE_FOLDER = Path(playhead.__file__).parents[1]


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """A command that a user of this shell calls."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("ZDOTDIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(completion_script, "_parent", lambda: "make")

    def run(shell: str, *words: str) -> tuple[int, str, str]:
        monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_is_installed_is_what_is_shown(run, tmp_path, shell):
    file, start_up, line = completion_script._PLACES[shell]
    for _ in range(2):
        code, out, err = run(shell, "--install-completion")
        assert (code, err) == (0, "")
        assert str(tmp_path / file) in out
    shown = run(shell, "--show-completion")[1]
    assert "_PLAYHEAD_COMPLETE" in shown
    assert (tmp_path / file).read_text().rstrip() == shown.rstrip()
    if start_up is not None:
        assert (tmp_path / start_up).read_text().splitlines().count(line) == 1


@pytest.mark.parametrize(
    ("shell", "variable", "file", "contains"),
    [
        ("zsh", "ZDOTDIR", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
        ("fish", "XDG_CONFIG_HOME", "fish/completions/playhead.fish", "_PLAYHEAD_COMPLETE"),
    ],
)
def test_a_shell_that_looks_elsewhere_finds_it_there(
    run, tmp_path, monkeypatch, shell, variable, file, contains
):
    monkeypatch.setenv(variable, "relative")
    assert run(shell, "--install-completion")[0] == 0
    assert not Path("relative").exists()
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    assert run(shell, "--install-completion")[0] == 0
    assert contains in (tmp_path / "elsewhere" / file).read_text()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_that_others_could_change_is_changed_by_them_no_longer(run, tmp_path, shell):
    file = tmp_path / completion_script._PLACES[shell][0]
    file.parent.mkdir(parents=True)
    file.write_text("")
    file.chmod(0o666)
    file.parent.chmod(0o777)
    assert run(shell, "--install-completion")[0] == 0
    assert [each.stat().st_mode & 0o777 for each in (file, file.parent)] == [0o644, 0o755]


def test_a_start_up_file_keeps_what_it_says(run, tmp_path):
    (tmp_path / ".bashrc").write_text("export MINE=1")
    run("bash", "--install-completion")
    assert (tmp_path / ".bashrc").read_text().startswith("export MINE=1\n")


def test_a_shell_that_is_not_known_is_said(run, tmp_path):
    code, out, err = run("tcsh", "--install-completion")
    assert (code, out) == (2, "")
    assert "the shell is not one of bash, zsh, fish" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_tab_does_not_run_a_program_of_the_folder(run, tmp_path):
    run("bash", "--install-completion")
    script = tmp_path / completion_script._PLACES["bash"][0]
    program = tmp_path / "playhead"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    name = next(
        line.split()[-2] for line in script.read_text().splitlines() if line.startswith("complete ")
    )
    for word, has_run in (("./playhead", False), ("playhead", True)):
        text = f'source "{script}"; COMP_WORDS=({word} r); COMP_CWORD=1; {name} {word}'
        subprocess.run(
            ["bash", "-c", text],
            cwd=tmp_path,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            check=False,
        )
        assert (tmp_path / "ran").exists() is has_run


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_by_the_script(run, tmp_path):
    run("bash", "--install-completion")
    command = tmp_path / "playhead"
    command.write_text(
        f"#!/bin/sh\nPYTHONPATH={SOURCE_FOLDER} exec {sys.executable} -m playhead.cli.app\n"
    )
    command.chmod(0o755)
    lines = (
        "source ~/.bash_completions/playhead.sh; COMP_WORDS=(playhead topics de); COMP_CWORD=2;"
        f'PATH={tmp_path}:$PATH; _playhead_completion playhead; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", lines], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["describe", "delete"], "")


def test_fish_gets_the_whole_of_a_name_with_a_comma(run, tmp_path):
    """Otherwise a group `orders,x` would be completed to `orders`, which may be another one."""
    code, script, _ = run("fish", "--show-completion")
    assert code == 0
    assert script.count("string split") == script.count('string split -m 1 "," $completion') == 1
    if shutil.which("fish") is None:
        pytest.skip("needs fish")
    command = tmp_path / "playhead"
    command.write_text("#!/bin/sh\necho 'plain,orders,x'\n")
    command.chmod(0o755)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"{script}\ncomplete -C 'playhead o'"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["orders,x"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "complete"])
def test_a_shell_that_asks_for_nothing_known_gets_nothing(shell, tmp_path):
    """As the scripts ask that Typer once installed."""
    done = subprocess.run(
        [sys.executable, "-m", "playhead.cli.app"],
        env={"_PLAYHEAD_COMPLETE": f"complete_{shell}", "PYTHONPATH": str(SOURCE_FOLDER)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_nobody_else_can_change_what_the_shell_runs(run, tmp_path, shell):
    before = os.umask(0)
    try:
        run(shell, "--install-completion")
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o022]
    assert made == []
    assert (tmp_path / completion_script._PLACES[shell][0]).exists()
