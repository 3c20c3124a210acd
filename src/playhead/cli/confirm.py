"""Asks for consent on a terminal before anything is written: y or n, or the target's name."""

import sys
from collections.abc import Callable

from playhead.cli.output import prompt, tell
from playhead.config.guards import CopiedBefore, Question
from playhead.errors import NeedsConsent, Refused


def _terminal_is_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _read_line() -> str:
    return sys.stdin.readline()


def answer(
    *,
    yes: bool,
    has_terminal: Callable[[], bool] = _terminal_is_there,
    read_answer: Callable[[], str] = _read_line,
) -> Callable[[Question], str | bool]:
    """Return the function that answers questions: --yes if that is enough, else the user at the terminal."""

    def answer_one(question: Question) -> str | bool:
        action = question.action
        if question.copies:
            if not has_terminal():
                raise CopiedBefore(action, copies=question.copies)
            action = f"{action} a second time ({question.copies})"
        if question.needs_name:
            return _typed_name(question, has_terminal, read_answer)
        if yes and not question.copies:
            return True
        if question.is_final and has_terminal():
            return _typed_name(question, has_terminal, read_answer)
        ask_plainly(action, has_terminal=has_terminal, read_answer=read_answer)
        return True

    return answer_one


def ask_plainly(
    action: str,
    *,
    has_terminal: Callable[[], bool] = _terminal_is_there,
    read_answer: Callable[[], str] = _read_line,
) -> None:
    """Ask y or n on the terminal, for actions that no context guards."""
    if not has_terminal():
        raise NeedsConsent(action)
    prompt(f"{action}? [y/N] ")
    if read_answer().strip().lower() not in ("y", "yes"):
        raise Refused(f"{action} was not done: the answer was not yes")


def _typed_name(
    question: Question, has_terminal: Callable[[], bool], read_answer: Callable[[], str]
) -> str:
    action, target = question.action, question.target
    if not has_terminal():
        raise Refused(
            f"{question.place} is marked production and there is no terminal to type {target!r} on",
            hint="run it on a terminal; --yes is not enough here",
        )
    if question.needs_name:
        tell(f"{question.place} is marked production: {action}")
    else:
        tell(f"{action}: this cannot be undone")
    prompt(f"type {target} to continue: ")
    typed = read_answer().strip()
    if typed != target:
        raise Refused(f"{action} was not done: the name typed is not {target!r}")
    return typed
