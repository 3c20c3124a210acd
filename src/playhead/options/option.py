"""An option: its name, type, meaning and default."""

import math
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from playhead.config.settings import BY_NAME
from playhead.errors import BadValue
from playhead.grammar.duration import parse_duration_ms
from playhead.grammar.size import parse_size_bytes

Kind = Literal["text", "number", "decimal", "duration", "size", "file", "names", "switch", "count"]
"""The type of a value: a duration becomes milliseconds, a size bytes, a file its path, a list with commas its names."""
Completion = Literal[
    "contexts", "properties", "topics", "sources", "targets", "groups", "replays", "standbys"
]

_METAVARS = {"number": "N", "duration": "DURATION", "size": "SIZE", "file": "FILE"}
_NUMBERS = {"number": "a whole number", "decimal": "a number", "size": "a size"}


@dataclass(frozen=True, slots=True)
class _Row:
    """The common fields of options and arguments."""

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
    joined: bool = False
    """Given several times, the texts are one list with commas."""
    required: bool = False
    completes: Completion | None = None
    check: Callable[[str], None] | None = None
    """Raises if a given text is invalid."""
    kafka_flags: tuple[str, ...] = ()
    """How Kafka's own tools and kcat spell it: the command line takes these too, and the help leaves them out."""

    @property
    def shown_name(self) -> str:
        raise NotImplementedError

    @property
    def unset(self) -> Any:
        """The default value."""
        if self.repeatable:
            return []
        return None if self.default is None else self._value_of_one(self.default)

    def value(self, given: Any) -> Any:
        """Parse a given text or value."""
        if given is None or (self.repeatable and not given):
            return self.unset
        if self.repeatable:
            return [self._value_of_one(text) for text in given]
        return self._value_of_one(given)

    def _value_of_one(self, given: Any) -> Any:
        if self.kind == "duration":
            return parse_duration_ms(given, where=self.shown_name)
        if self.kind in _NUMBERS:
            return self._number(given)
        if self.choices and given not in self.choices:
            *others, last = self.choices
            raise self._bad(given, f"{', '.join(others)} or {last}")
        if self.check is not None:
            self.check(given)
        if self.kind == "names":
            return tuple(name for each in given.split(",") if (name := each.strip()))
        return Path(given) if self.kind == "file" else given

    def _number(self, given: Any) -> float:
        try:
            number = self._parsed(given)
        except ValueError:
            raise self._bad(given, self._bounds()) from None
        is_low = self.low is not None and number < self.low
        is_high = self.high is not None and number > self.high
        if is_low or is_high or not math.isfinite(number):
            raise self._bad(given, self._bounds())
        return number

    def _parsed(self, given: Any) -> float:
        if self.kind == "size":
            return parse_size_bytes(given, where=self.shown_name)
        return int(given) if self.kind == "number" else float(given)

    def _bounds(self) -> str:
        what = _NUMBERS[self.kind]
        return f"{what}, {self.bounds}" if self.bounds else what

    @property
    def bounds(self) -> str:
        """The allowed numbers in words; empty if all are allowed."""
        if self.low is None:
            return ""
        least = f"at least {self.low:,}" if self.high is None else f"{self.low:,} to {self.high:,}"
        return f"{least} bytes" if self.kind == "size" else least

    def _bad(self, given: object, needed: str) -> BadValue:
        return BadValue(self.shown_name, found=given, needed=needed)


@dataclass(frozen=True, slots=True)
class Option(_Row):
    """An option given by name: `--name value`, or `--name` alone."""

    _: KW_ONLY
    flags: tuple[str, ...] = ()
    """The command line's spellings; derived from the name if empty."""
    off: str | None = None
    """The flag that switches it off, if its absence means something else."""

    @property
    def shown_value(self) -> str | None:
        return self.metavar or _METAVARS.get(self.kind)

    @property
    def spellings(self) -> tuple[str, ...]:
        return self.flags or (f"--{self.name.rstrip('_').replace('_', '-')}",)

    @property
    def shown_name(self) -> str:
        return max(self.spellings, key=len)


@dataclass(frozen=True, slots=True)
class Argument(_Row):
    """An argument given by position."""

    required: bool = field(default=True, kw_only=True)

    @property
    def shown_name(self) -> str:
        return self.metavar or self.name.upper()


class Options(tuple[Option | Argument, ...]):
    """Options under one heading of the help; arguments have their own heading."""

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
    """Return an option that is on when it is given."""
    return Option(name, help, flags=flags, kind="switch", default=False)


def setting(
    name: str,
    metavar: str,
    *short: str,
    kafka_flags: tuple[str, ...] = (),
    joined: bool = False,
) -> Option:
    """Return the option for a setting, with the setting's name and help."""
    known = BY_NAME[name]
    flags = (*short, known.flag) if known.flag else short
    return Option(name, known.help, metavar, flags=flags, kafka_flags=kafka_flags, joined=joined)


def unset(groups: Iterable[Options]) -> dict[str, Any]:
    """Return the default values of the options."""
    return {row.name: row.unset for group in groups for row in group}


def dry_run(help: str) -> Option:  # noqa: A002  the field's name
    """Return --dry-run with its own help, for commands in which it does more than show the plan."""
    return replace(DRY_RUN, help=help)


YES = switch("yes", "Do not ask for confirmation.", "-y", "--yes")
DRY_RUN = switch("dry_run", "Only show what would be done, and write nothing.")
