"""The guard before anything is written: read-only contexts, production contexts, a question, --yes."""

import sys
from collections.abc import Callable

from playhead.cli.output import tell
from playhead.context import Configuration
from playhead.errors import NeedsConsent, Refused
from playhead.settings import BY_NAME


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
) -> None:
    """Return when `action` on `target` may be done; otherwise say why it may not.

    A production context wants the target's name typed, and `--yes` does not stand in for it.
    """
    place = f"context {configuration.context}" if configuration.context else "this configuration"
    if configuration.is_on("read_only"):
        origin = configuration.settings["read_only"].origin
        raise Refused(
            f"{place} is read-only ({origin}): {action} was not done",
            hint=_way_out(origin),
        )
    if configuration.is_on("production"):
        _ask_for_name(action, target, place, has_terminal, read_answer)
        return
    if not yes:
        ask_plainly(action, has_terminal=has_terminal, read_answer=read_answer)


def _way_out(origin: str) -> str:
    """How to be allowed to write: a guard stays on until the place that says it is changed."""
    if origin == "environment":
        return f"unset {BY_NAME['read_only'].environment}"
    if origin.startswith("context "):
        return "choose another context with -c, or change this one: playhead context edit"
    return f"take read_only out of {origin}"


def ask_plainly(
    action: str,
    *,
    has_terminal: Callable[[], bool] = _terminal_is_there,
    read_answer: Callable[[], str] = _read_line,
) -> None:
    """Return when somebody says yes; for what no context has a word in."""
    if not has_terminal():
        raise NeedsConsent(action)
    _prompt(f"{action}? [y/N] ")
    if read_answer().strip().lower() not in ("y", "yes"):
        raise Refused(f"{action} was not done: the answer was not yes")


def ask_by_name(action: str, target: str, configuration: Configuration, *, yes: bool) -> None:
    """As `ask`, for what cannot be undone: whoever sits at a terminal types the name of what goes."""
    if yes or not _terminal_is_there() or configuration.is_on("production"):
        ask(action, target, configuration, yes=yes)
        return
    if not configuration.is_on("read_only"):
        tell(f"{action}: this cannot be undone")
        _ask_for_name(action, target, "", _terminal_is_there, _read_line)
        return
    ask(action, target, configuration, yes=yes)


def _ask_for_name(
    action: str,
    target: str,
    place: str,
    has_terminal: Callable[[], bool],
    read_answer: Callable[[], str],
) -> None:
    if not has_terminal():
        raise Refused(
            f"{place} is marked production and there is no terminal to type {target!r} on",
            hint="run it on a terminal; --yes is not enough here",
        )
    if place:
        tell(f"{place} is marked production: {action}")
    _prompt(f"type {target} to go on: ")
    if read_answer().strip() != target:
        raise Refused(f"{action} was not done: the name typed is not {target!r}")


def _prompt(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
