"""The `playhead` command: its tree, and the one place where errors become exit codes."""

import contextlib
import errno
import io
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import click
from click.exceptions import Exit, NoArgsIsHelpError

from playhead import secrets
from playhead.cli.commands import Tree
from playhead.cli.completion_script import COMPLETES, install, show
from playhead.cli.output import Output, ReaderGone, tell
from playhead.cli.signals import Ending, Terminated
from playhead.config import exposed_logins
from playhead.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    EXIT_USAGE,
    PlayheadError,
)
from playhead.host import lifetime
from playhead.version import __version__

_WITH_ENGINE = ("replay", "gaps", "verify", "resume")
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BROKEN = (errno.EIO, errno.ESTALE)
_VERBOSE = re.compile("-v+|--verbose")


def _at_once(flag: str, text: str, do: Callable[[], None]) -> click.Option:
    """Run an option of the root command that does one thing and ends the command."""

    def done(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            do()
            context.exit()

    return click.Option(
        [flag], is_flag=True, is_eager=True, expose_value=False, help=text, callback=done
    )


app = Tree(
    "playhead",
    params=[
        _at_once(
            "--version", "Print the version.", lambda: Output().text(f"playhead {__version__}")
        ),
        _at_once("--install-completion", "Install completion for your shell.", install),
        _at_once("--show-completion", "Print the script that --install-completion installs.", show),
    ],
    help="A tape deck for event streams: wind a topic back and play it again, exactly once, "
    "with a proof.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done and proved, 1 failed, 2 usage, 4 differences found, 5 stopped and can "
    "be resumed, 6 refused by a guard, 130 and 143 by a signal.",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command, in the warm engine where it can be, and end the process with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    _leave(run(words, _run_anywhere))


def run(words: list[str], command: "Callable[[list[str]], int] | None" = None) -> int:
    """Run one command in this process; returns its exit code."""
    secrets.remember_proxies()  # Also for a command that downloads jars before it reads settings.
    exposed_logins.teller = lambda text: tell(f"warning: {text}")
    threading.excepthook = _tell_of_thread
    ending = Ending()
    with ending.listening():
        return _run(words, ending, command or _run_command)


def _tell_of_thread(failed: threading.ExceptHookArgs) -> None:
    """Print a thread's error like all other output, so that secrets are redacted."""
    lines = traceback.format_exception(failed.exc_type, failed.exc_value, failed.exc_traceback)
    tell("".join(lines).rstrip())


def _open_what_is_closed() -> None:
    """Open missing standard streams: a daemon may start us without them, and Python then has None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # Any encoding: no name may cause an error.
        sys.stdout.reconfigure(errors="backslashreplace")


def _run(words: list[str], ending: Ending, command: Callable[[list[str]], int]) -> int:
    try:
        return command(words)
    except (KeyboardInterrupt, EOFError):
        tell("interrupted")
        return EXIT_INTERRUPTED
    except Terminated:
        tell("terminated")
        return EXIT_TERMINATED
    except Exception as exc:  # noqa: BLE001  the last net: a sentence, not a traceback
        if ending.code is not None:  # Many things fail on the way out, because the engine is gone.
            tell("interrupted" if ending.code == EXIT_INTERRUPTED else "terminated")
            return ending.code
        if isinstance(exc, PlayheadError):
            return _fail(exc.message, exc.hint, exc.exit_code, words)
        if (told := _of_the_machine(exc)) is not None:
            return _fail(*told, EXIT_FAILED, words)
        hint = "this is a fault of Playhead's; -vv shows the traceback to report"
        return _fail(f"{type(exc).__name__}: {exc}", hint, EXIT_FAILED, words)


def _of_the_machine(exc: Exception) -> tuple[str, str] | None:
    """Return the error for a path that cannot be used, or for bytes that are not text."""
    if isinstance(exc, OSError) and exc.filename is not None:
        hint = "check the path, its permissions and the free space of its disk"
        return f"{exc.strerror}: {secrets.redacted_start(str(exc.filename), 200)}", hint
    if isinstance(exc, OSError) and exc.errno in _DISK:
        hint = "free some space, on the output's disk or on that of the temporary and state folders"
        return f"{exc.strerror}", hint
    if isinstance(exc, OSError) and exc.errno in _BROKEN:
        hint = (
            "a disk or a file system of the network failed: check what the command reads and writes"
        )
        return f"{exc.strerror}", hint
    if isinstance(exc, UnicodeEncodeError) and exc.encoding == "utf-8":
        hint = "arguments and files must be UTF-8"
        return f"not UTF-8: {secrets.redacted_start(exc.object, 80)!r}", hint
    return None


def _run_anywhere(words: list[str]) -> int:
    if not words or words[0] not in _WITH_ENGINE or os.environ.get(COMPLETES):
        return _run_command(words)
    from playhead.cli.warm import client

    try:
        return client.run(words)
    except client.RunHere as exc:
        here = exc
    lifetime.is_of_one_command = True
    try:
        return _run_command(here.words)
    finally:
        if here.leave_engine:
            client.leave_engine(here.words)


def _run_command(words: list[str]) -> int:
    try:
        if _asks_for_properties(words):
            from playhead.cli.setup.config import list_properties

            return list_properties()
        if os.environ.get(COMPLETES):  # A shell requests completions.
            app.main(words, prog_name="playhead", complete_var=COMPLETES)
        with app.make_context("playhead", words) as context:
            app.invoke(context)
    except Exit as exc:
        return exc.exit_code
    except click.ClickException as exc:
        return _fail_usage(exc)
    except ReaderGone:
        return EXIT_DONE
    return EXIT_DONE


def _asks_for_properties(words: list[str]) -> bool:
    return any(pair in (("-X", "list"), ("-X", "help")) for pair in pairwise(words))


def _fail(message: str, hint: str | None, code: int, words: list[str]) -> int:
    if _wants_traceback(words):
        tell(traceback.format_exc().rstrip())
    tell(f"error: {message}")
    if hint:
        tell(f"hint: {hint}")
    return code


def _fail_usage(exc: click.ClickException) -> int:
    found = getattr(exc, "ctx", None)
    if isinstance(exc, NoArgsIsHelpError):  # Without a command, print the help.
        for line in exc.format_message().split("\n"):
            tell(line)
        return EXIT_USAGE
    tell(f"error: {exc.format_message()}")
    if found is not None:
        tell(f"hint: {found.command_path} --help")
    return EXIT_USAGE


def _wants_traceback(words: list[str]) -> bool:
    asked = "".join(word.replace("--verbose", "-v") for word in words if _VERBOSE.fullmatch(word))
    return asked.count("v") > 1


def _leave(code: int) -> None:
    """End with this code, even if the reader of our output is gone."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


if __name__ == "__main__":
    main()
