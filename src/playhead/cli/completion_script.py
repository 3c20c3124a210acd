"""The shell's completion script: printed, or installed where the shell finds it."""

import os
from itertools import pairwise
from pathlib import Path
from stat import S_IMODE
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from playhead.cli.output import Output
from playhead.errors import UsageError
from playhead.host import shared_files
from playhead.host.own_links import open_by_own_links

COMPLETES = "_PLAYHEAD_COMPLETE"
"""The environment variable with which a shell requests completions."""
_FUNCTIONS = ".zfunc"
# The script of each shell, the file that the shell reads at its start, and the line for it.
_PLACES = {
    "bash": (".bash_completions/playhead.sh", ".bashrc", "source ~/.bash_completions/playhead.sh"),
    "zsh": (
        f"{_FUNCTIONS}/_playhead",
        ".zshrc",
        f"fpath+=~/{_FUNCTIONS}; autoload -Uz compinit; compinit",
    ),
    "fish": (".config/fish/completions/playhead.fish", None, ""),
}
# Of the shells that look elsewhere: the folder that they look in, by the variable that names the other one.
_ELSEWHERE = {"zsh": ("ZDOTDIR", ""), "fish": ("XDG_CONFIG_HOME", ".config/")}


_BASH = """\
%(complete_func)s() {
    local line
    COMPREPLY=()
    # bash calls this for ./playhead too, which is a program of the folder.
    [[ $1 == */* ]] && return
    while IFS= read -r line; do
        case "$line" in
            plain,*) COMPREPLY+=("${line#plain,}") ;;
            file,*) compopt -o default ;;
        esac
    done < <(
        IFS=$'\\n'
        env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" %(complete_var)s=bash_complete "$1"
    )
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:=] ]]; then
        compopt -o nospace
    fi
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


def show() -> None:
    Output().text(_script(_shell()).rstrip())


def install() -> None:
    shell = _shell()
    script, start_up, line = _PLACES[shell]
    file = _place(shell, script)
    shared_files.folder(file.parent)
    shared_files.write(file, _script(shell))
    for each in (file.parent, file):
        # Others may change what an earlier version, or a wide umask, has left; every new shell runs it.
        handle = open_by_own_links(each, os.O_RDONLY)
        try:
            mode = S_IMODE(os.fstat(handle).st_mode)
            if mode & 0o022:
                os.fchmod(handle, mode & ~0o022)
        finally:
            os.close(handle)
    if start_up is not None:
        _add_line(_place(shell, start_up), line)
    Output().text(f"completion for {shell} is installed in {file}; it works in every new terminal")


def _place(shell: str, file: str) -> Path:
    """Return a file of the home folder, or the one that the shell reads instead of it."""
    variable, folder = _ELSEWHERE.get(shell, ("", ""))
    elsewhere = Path(os.environ.get(variable, ""))
    if not elsewhere.is_absolute() or file.startswith(_FUNCTIONS):
        return Path.home() / file
    return elsewhere / file.removeprefix(folder)


def _add_line(file: Path, line: str) -> None:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if line not in text.splitlines():
        with shared_files.opened(file, "a") as stream:
            stream.write(f"\n{line}\n")


def _shell() -> str:
    """Return the shell that started this command, else the user's login shell."""
    for name in (_parent(), Path(os.environ.get("SHELL", "")).name):
        if name in _PLACES:
            return name
    raise UsageError(
        f"cannot install completion: the shell is not one of {', '.join(_PLACES)}",
        hint="name the shell: SHELL=/bin/bash playhead --show-completion",
    )


def _parent() -> str:
    try:
        return Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


class BashWords(BashComplete):
    """Completion for bash, which splits words at `:` and `=`, and completes only the last part."""

    source_template = _BASH
    _kept = ""
    """The parts of the word before the last one; bash keeps them as they are."""

    def get_completion_args(self) -> tuple[list[str], str]:
        index = int(os.environ["COMP_CWORD"])
        words = os.environ["COMP_WORDS"].split("\n")
        if index >= len(words):  # A new word: nothing of it is typed yet.
            return _unquoted(_whole(words)[1:]), ""
        *args, incomplete = _whole(words[: index + 1])
        last = "" if _is_break(words[index]) else words[index]
        self._kept = incomplete.removesuffix(last) if incomplete != words[index] else ""
        return _unquoted(args[1:]), incomplete

    def format_completion(self, item: "CompletionItem[Any]") -> str:
        return f"{item.type},{item.value.removeprefix(self._kept)}"


def _unquoted(words: list[str]) -> list[str]:
    return [" ".join(split_arg_string(word)) for word in words]


def _is_break(part: str) -> bool:
    return bool(part) and not part.strip(":=")


def _whole(parts: list[str]) -> list[str]:
    """Return the words that bash split at `:` and `=`."""
    words: list[str] = []
    for before, part in pairwise(["", *parts]):
        if words and (_is_break(part) or _is_break(before)):
            words[-1] += part
        else:
            words.append(part)
    return words


def _script(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  click knows the shells of the table
    return kind(click.Command("playhead"), {}, "playhead", COMPLETES).source()


class FishWords(FishComplete):
    """Completion for fish; a name or a help text can contain the comma before which the kind is."""

    source_template = FishComplete.source_template.replace(
        'string split "," $completion', 'string split -m 1 "," $completion'
    )


add_completion_class(BashWords)
add_completion_class(FishWords)
