"""The shell's completion script: printed, or installed where the shell finds it."""

import os
from pathlib import Path

import click

from playhead.cli.output import Output
from playhead.errors import UsageError

COMPLETES = "_PLAYHEAD_COMPLETE"
"""The environment variable with which a shell requests completions."""
# The script of each shell, the file that the shell reads at its start, and the line for it.
_PLACES = {
    "bash": (".bash_completions/playhead.sh", ".bashrc", "source ~/.bash_completions/playhead.sh"),
    "zsh": (".zfunc/_playhead", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/playhead.fish", None, ""),
}


def show() -> None:
    Output().text(_script(_shell()).rstrip())


def install() -> None:
    shell = _shell()
    script, start_up, line = _PLACES[shell]
    file = Path.home() / script
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_script(shell), encoding="utf-8")
    if start_up is not None:
        _add_line(Path.home() / start_up, line)
    Output().text(f"completion for {shell} is installed in {file}; it works in every new terminal")


def _add_line(file: Path, line: str) -> None:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if line not in text.splitlines():
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"\n{line}\n")


def _shell() -> str:
    """Return the shell that started this command, else the user's login shell."""
    for name in (_parent(), Path(os.environ.get("SHELL", "")).name):
        if name in _PLACES:
            return name
    raise UsageError(
        f"cannot install completion: the shell is none of {', '.join(_PLACES)}",
        hint="name the shell: SHELL=/bin/bash playhead --show-completion",
    )


def _parent() -> str:
    try:
        return Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  click knows the shells of the table
    return kind(click.Command("playhead"), {}, "playhead", COMPLETES).source()
