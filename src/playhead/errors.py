"""Every error Playhead raises on purpose: what happened, where, what was found and needed, and the way out.

    PlayheadError                    exit 1
    ├── UsageError                   exit 2   the request cannot be understood
    │   ├── UnknownKey                        a setting or property that does not exist, with the nearest match
    │   ├── BadValue                          a setting or property with a value it cannot have
    │   └── UntranslatableProperty            a Kafka client property with no counterpart here
    ├── Refused                      exit 6   a guard said no
    │   ├── NeedsConsent                      would write, without a confirmation
    │   └── NoSuchColumn                      an option names a column that the table does not have
    ├── Stopped                      exit 5   stopped before the end; can be resumed
    ├── Unavailable                  exit 1   a server that is needed does not answer
    │   ├── BrokerUnavailable
    │   ├── DatabaseUnavailable
    │   └── NotFetched                        a file that could not be downloaded
    ├── MissingPiece                 exit 1   something has to be installed or configured first
    └── SandboxError                 exit 1
        └── ServerDidNotStart                 a server of the sandbox ended before it was ready

Each class builds its message from typed fields, so that a face can print it, and a program can read it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Self

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_DIFFERENT = 4
EXIT_STOPPED = 5
EXIT_REFUSED = 6
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


_SHOWN_COLUMNS = 20
# Their name says more than the key of the setting: it is what the user has typed.
_LONGEST_SHOWN = 400
_OPTION_OR_VARIABLE = re.compile("--[a-z-]+|[A-Z][A-Z0-9_]+")


def did_you_mean(name: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str | None:
    """Return a hint with the names that are like this one; None if there are none."""
    folded = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(shown(folded[each]) for each in near)}?" if near else None


class PlayheadError(Exception):
    """The root of all errors: one sentence, and a hint that says what to do next."""

    exit_code = EXIT_FAILED
    _made_of: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *fields: Any, **named: Any) -> Self:
        error = super().__new__(cls, *fields)
        error._made_of = fields, named
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the typed fields, because errors travel between processes."""
        fields, named = self._made_of
        return partial(type(self), *fields, **named), (), {"hint": self.hint}

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class RunsAlone(BaseException):
    """In the warm engine: the command needs what only the process has in which it was typed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UsageError(PlayheadError):
    """The request is invalid."""

    exit_code = EXIT_USAGE


class UnknownKey(UsageError):
    """A setting or property that does not exist; the hint names similar ones."""

    def __init__(self, key: str, *, where: str, known: Sequence[str]) -> None:
        self.key, self.where = key, where
        self.nearest = tuple(get_close_matches(key, known, n=3, cutoff=0.6))
        hint = (
            f"did you mean {' or '.join(self.nearest)}?"
            if self.nearest
            else f"known keys: {', '.join(known)}"
            if 0 < len(known) <= 12
            else None
        )
        super().__init__(f"unknown key {key!r} in {where}", hint=hint)


class BadValue(UsageError):
    """A setting or property with an invalid value."""

    def __init__(
        self,
        key: str,
        *,
        found: object,
        needed: str,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.key, self.found, self.needed, self.where = key, found, needed, where
        what = key
        if where is not None:
            what = where if _OPTION_OR_VARIABLE.fullmatch(where) else f"{key} in {where}"
        shown = repr(found)
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}… ({len(shown):,} characters)"
        super().__init__(f"{what} is {shown}; needed: {needed}", hint=hint)


class UntranslatableProperty(UsageError):
    """A Kafka client property that one of the two client libraries used here cannot take."""

    def __init__(self, key: str, *, where: str, reason: str, hint: str) -> None:
        self.key, self.where, self.reason = key, where, reason
        super().__init__(f"{key} in {where} cannot be used: {reason}", hint=hint)


class Refused(PlayheadError):
    """A guard refused the request; nothing was written."""

    exit_code = EXIT_REFUSED


class NeedsConsent(Refused):
    """The command would write, but there is no terminal to ask and no --yes."""

    def __init__(self, action: str) -> None:
        self.action = action
        super().__init__(
            f"{action} needs a confirmation, and stdin is not a terminal",
            hint="add --yes, or show the plan first with --dry-run",
        )


class NoSuchColumn(Refused):
    """An option names a column that the table does not have."""

    def __init__(self, option: str, column: str, *, table: str, known: Sequence[str]) -> None:
        self.option, self.column, self.table = option, column, table
        more = f" and {len(known) - _SHOWN_COLUMNS} more" if len(known) > _SHOWN_COLUMNS else ""
        columns = f"columns of {table}: {', '.join(known[:_SHOWN_COLUMNS])}{more}"
        super().__init__(
            f"{option} names the column {column}, but {table} has no such column",
            hint=" ".join(filter(None, (did_you_mean(column, known), columns))),
        )


class Stopped(PlayheadError):
    """The run stopped before its end and can be resumed."""

    exit_code = EXIT_STOPPED


class Unavailable(PlayheadError):
    """A server that is needed does not answer."""


class BrokerUnavailable(Unavailable):
    """No Kafka broker answered in time."""

    def __init__(self, bootstrap_servers: str, *, waited_s: float, reason: str) -> None:
        self.bootstrap_servers, self.waited_s, self.reason = bootstrap_servers, waited_s, reason
        within = f" within {waited_s:g} s" if waited_s else ""
        super().__init__(
            f"no Kafka broker answered at {bootstrap_servers}{within}: {reason}",
            hint="check the address; `playhead doctor` tests the connection, `playhead "
            "sandbox up` starts a local broker",
        )


class DatabaseUnavailable(Unavailable):
    """PostgreSQL refused or did not answer the connection."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"cannot connect to PostgreSQL at {where}: {reason}",
            hint="check DATABASE_URL or the context's `database`; `playhead doctor` tests the connection",
        )


class NotFetched(Unavailable):
    """A required file could not be downloaded."""

    def __init__(self, coordinate: str, *, url: str, reason: str) -> None:
        self.coordinate, self.url, self.reason = coordinate, url, reason
        super().__init__(
            f"cannot fetch {coordinate} from {url}: {reason}",
            hint="behind a mirror, set PLAYHEAD_MAVEN_URL to its base address; a copy in "
            "~/.m2/repository is used if its checksum matches",
        )


class MissingPiece(PlayheadError):
    """Something must be installed or configured first."""

    def __init__(self, piece: str, *, needed_for: str, hint: str) -> None:
        self.piece, self.needed_for = piece, needed_for
        super().__init__(f"{needed_for} needs {piece}, which was not found", hint=hint)


class SandboxError(PlayheadError):
    """The sandbox cannot do what the command asks."""


class ServerDidNotStart(SandboxError):
    """A server of the sandbox ended or did not answer before it was ready; contains the end of its log."""

    def __init__(self, server: str, *, reason: str, log: Path, log_tail: Sequence[str]) -> None:
        self.server, self.reason, self.log = server, reason, log
        tail = "".join(f"\n    {line}" for line in log_tail)
        super().__init__(
            f"{server} did not start: {reason}{tail}",
            hint=f"read the whole log in {log}; the same command with --fresh starts with empty servers",
        )
