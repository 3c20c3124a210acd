"""An option: what it is called, what it takes, what it means, and its value when nobody gives one."""

import math
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from playhead.config.settings import BY_NAME
from playhead.errors import BadValue

Kind = Literal["text", "number", "decimal", "file", "switch", "count"]
Completion = Literal["contexts", "properties", "topics", "groups", "replays", "standbys"]


@dataclass(frozen=True, slots=True)
class _Row:
    """What options and arguments have in common."""

    name: str
    help: str
    metavar: str | None = None
    _: KW_ONLY
    kind: Kind = "text"
    default: Any = None
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    repeatable: bool = False
    required: bool = False
    completes: Completion | None = None
    check: Callable[[str], None] | None = None
    """Raises when a text that was given cannot be meant."""

    @property
    def shown_name(self) -> str:
        raise NotImplementedError

    @property
    def unset(self) -> Any:
        """Its value when nobody gives one."""
        return [] if self.repeatable else self.default

    def value(self, given: Any) -> Any:
        """What was given at a face, as a value of its kind."""
        if given is None or (self.repeatable and not given):
            return self.unset
        if self.repeatable:
            return [self._value_of_one(text) for text in given]
        return self._value_of_one(given)

    def _value_of_one(self, given: Any) -> Any:
        if self.kind in ("number", "decimal"):
            return self._number(given)
        if self.choices and given not in self.choices:
            *others, last = self.choices
            raise self._bad(given, f"{', '.join(others)} or {last}")
        if self.check is not None:
            self.check(given)
        return Path(given) if self.kind == "file" else given

    def _number(self, given: Any) -> float:
        try:
            number: float = int(given) if self.kind == "number" else float(given)
        except ValueError:
            raise self._bad(given, self._bounds()) from None
        is_low = self.low is not None and number < self.low
        is_high = self.high is not None and number > self.high
        if is_low or is_high or not math.isfinite(number):
            raise self._bad(given, self._bounds())
        return number

    def _bounds(self) -> str:
        what = "a whole number" if self.kind == "number" else "a number"
        return f"{what} {self.bounds}" if self.bounds else what

    @property
    def bounds(self) -> str:
        """The numbers that it takes, in words; empty when it takes all."""
        if self.low is not None and self.high is not None:
            return f"from {self.low:,} to {self.high:,}"
        return "" if self.low is None else f"of at least {self.low:,}"

    def _bad(self, given: object, needed: str) -> BadValue:
        return BadValue(self.shown_name, found=given, needed=needed)


@dataclass(frozen=True, slots=True)
class Option(_Row):
    """What is given by name: `--name value`, or `--name` alone."""

    _: KW_ONLY
    flags: tuple[str, ...] = ()
    """How the command line spells it; made of the name when empty."""
    off: str | None = None
    """The flag that switches it off, where not saying it means something else."""

    @property
    def spellings(self) -> tuple[str, ...]:
        return self.flags or (f"--{self.name.rstrip('_').replace('_', '-')}",)

    @property
    def shown_name(self) -> str:
        return max(self.spellings, key=len)


@dataclass(frozen=True, slots=True)
class Argument(_Row):
    """What is given by its position."""

    required: bool = field(default=True, kw_only=True)

    @property
    def shown_name(self) -> str:
        return self.metavar or self.name.upper()


class Options(tuple[Option | Argument, ...]):
    """Options that stand together in the help, under a heading; arguments have one of their own."""

    heading: str

    def __new__(cls, heading: str, *rows: Option | Argument) -> Self:
        made = super().__new__(cls, rows)
        made.heading = heading
        return made

    def only(self, *names: str) -> Self:
        return type(self)(self.heading, *(row for row in self if row.name in names))

    def without(self, *names: str) -> Self:
        return type(self)(self.heading, *(row for row in self if row.name not in names))


def switch(name: str, help: str, *flags: str) -> Option:  # noqa: A002  the field's name
    """An option that is on when it is given."""
    return Option(name, help, flags=flags, kind="switch", default=False)


def setting(name: str, metavar: str, *short: str) -> Option:
    """The option for a setting; the setting says what it is called and means."""
    known = BY_NAME[name]
    flags = (*short, known.flag) if known.flag else short
    return Option(name, known.help, metavar, flags=flags)


def unset(groups: Iterable[Options]) -> dict[str, Any]:
    """The values of options that nobody gives."""
    return {row.name: row.unset for group in groups for row in group}


def dry_run(help: str) -> Option:  # noqa: A002  the field's name
    """--dry-run, where a command does more in it than to show its plan."""
    return replace(DRY_RUN, help=help)


YES = switch("yes", "Do not ask for confirmation.", "-y", "--yes")
DRY_RUN = switch("dry_run", "Only show what would be done, and write nothing.")
