"""The guard before anything is written: read-only contexts, production contexts, a question, --yes."""

import sys
from collections.abc import Callable

from playhead.cli.output import prompt, tell
from playhead.consent import place_of, refuse_read_only
from playhead.context import Configuration
from playhead.errors import NeedsConsent, Refused


def _terminal_is_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _read_line() -> str:
    return sys.stdin.readline()


def ask(
    action: str,
    target: str,
    configuration: Configuration,
    *,
    yes: bool,
    has_terminal: Callable[[], bool] = _terminal_is_there,
    read_answer: Callable[[], str] = _read_line,
) -> str | None:
    """The consent that what writes asks for: the target's name, where somebody had to type it.

    Whether it may be written is decided there; here somebody is asked, before anything is begun.
    """
    refuse_read_only(action, configuration)
    if configuration.is_on("production"):
        place = place_of(configuration)
        return _asked_for_name(action, target, place, has_terminal, read_answer)
    if not yes:
        ask_plainly(action, has_terminal=has_terminal, read_answer=read_answer)
    return None


def ask_plainly(
    action: str,
    *,
    has_terminal: Callable[[], bool] = _terminal_is_there,
    read_answer: Callable[[], str] = _read_line,
) -> None:
    """Return when somebody says yes; for what no context has a word in."""
    if not has_terminal():
        raise NeedsConsent(action)
    prompt(f"{action}? [y/N] ")
    if read_answer().strip().lower() not in ("y", "yes"):
        raise Refused(f"{action} was not done: the answer was not yes")


def ask_by_name(action: str, target: str, configuration: Configuration, *, yes: bool) -> str | None:
    """As `ask`, for what cannot be undone: whoever sits at a terminal types the name of what goes."""
    if yes or not _terminal_is_there() or configuration.is_on("production"):
        return ask(action, target, configuration, yes=yes)
    refuse_read_only(action, configuration)
    tell(f"{action}: this cannot be undone")
    return _asked_for_name(action, target, "", _terminal_is_there, _read_line)


def _asked_for_name(
    action: str,
    target: str,
    place: str,
    has_terminal: Callable[[], bool],
    read_answer: Callable[[], str],
) -> str:
    if not has_terminal():
        raise Refused(
            f"{place} is marked production and there is no terminal to type {target!r} on",
            hint="run it on a terminal; --yes is not enough here",
        )
    if place:
        tell(f"{place} is marked production: {action}")
    prompt(f"type {target} to go on: ")
    typed = read_answer().strip()
    if typed != target:
        raise Refused(f"{action} was not done: the name typed is not {target!r}")
    return typed
