"""The table of systems: the package that implements each kind of endpoint, ours or an installed one."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from playhead.errors import UsageError

if TYPE_CHECKING:
    from playhead.config.context import Configuration
    from playhead.endpoint import Endpoint
    from playhead.request import ReplaySpec
    from playhead.source import Source
    from playhead.target import Target

ENTRY_POINTS = "playhead.systems"
"""The entry point group in which an outside package names its `System`; the entry point's name is the scheme."""
Kind = Literal["table", "topic", "archive", "capture", "other"]


class System:
    """The description of a system; `MakesSource` and `MakesTarget` add its abilities."""

    kind: Kind = "other"
    """The kind of rules for its endpoints: those of tables, topics, archives, or captured traffic."""
    examples: ClassVar[Mapping[str, str]]
    """An example of an endpoint for each scheme; no other schemes exist."""
    is_live_source = False
    is_live_target = False

    def parse(self, text: str, scheme: str, rest: str) -> "Endpoint":
        """Parse `scheme:rest` into an endpoint; raise `BadEndpoint` if it is invalid."""
        raise NotImplementedError

    def text(self, end: "Endpoint") -> str:
        """Return the endpoint as a text that `parse` accepts."""
        return f"{end.system}:{end.name}"

    def from_anywhere(self, end: "Endpoint") -> "Endpoint":
        """Return the endpoint with absolute paths, so that it means the same in every folder."""
        return end

    def is_same_server(
        self, _one: "Endpoint", _other: "Endpoint", _configuration: "Configuration"
    ) -> bool:
        """Return whether equal names at two endpoints of this system are the same thing."""
        return False


@runtime_checkable
class MakesSource(Protocol):
    """A system that can be a source."""

    def source(
        self, end: "Endpoint", spec: "ReplaySpec", configuration: "Configuration", /
    ) -> "Source":
        """Describe the source, without connecting."""
        ...


@runtime_checkable
class MakesTarget(Protocol):
    """A system that can be a target."""

    def target(
        self, end: "Endpoint", spec: "ReplaySpec", configuration: "Configuration", /
    ) -> "Target":
        """Describe the target, without connecting. `spec` has the source and the rules."""
        ...


class Row(NamedTuple):
    """One system of this package; its module is imported when the first endpoint uses it."""

    schemes: tuple[str, ...]
    module: str


OURS = (
    Row(("kafka",), "playhead.kafka.system"),
    Row(("postgres", "postgresql"), "playhead.postgres.system"),
    Row(("parquet", "json", "csv"), "playhead.files.system"),
    Row(("sqlite",), "playhead.sqlite.system"),
    Row(
        ("rrpair", "extract", "gor", "har", "csvlog", "jsonlog", "pglog"), "playhead.traffic.system"
    ),
)


class BadSystem(UsageError):
    """An installed package offers a system that cannot be used."""

    def __init__(self, scheme: str, *, reason: str) -> None:
        self.scheme, self.reason = scheme, reason
        super().__init__(
            f"system {scheme!r}: {reason}",
            hint=f"see which packages have an entry point in the group {ENTRY_POINTS}",
        )


@cache
def system_named(scheme: str) -> System | None:
    """Return the system with this scheme: one of this package, else one of an installed package."""
    for row in OURS:
        if scheme in row.schemes:
            return _described(row)
    return _installed(scheme)


def ours() -> Iterator[System]:
    """Return all systems of this package."""
    return map(_described, OURS)


def schemes() -> list[str]:
    """Return every scheme of an endpoint, including those of installed packages."""
    return [*(each for row in OURS for each in row.schemes), *(name for name, _ in _offered())]


def _described(row: Row) -> System:
    system: System = import_module(row.module).SYSTEM
    return system


def _installed(scheme: str) -> System | None:
    offers = {value: load for name, (value, load) in _offered() if name == scheme}
    if not offers:
        return None
    if len(offers) > 1:
        raise BadSystem(scheme, reason=f"several packages offer it: {', '.join(sorted(offers))}")
    [(value, load)] = offers.items()
    try:
        system = load()
    except Exception as exc:
        raise BadSystem(scheme, reason=f"{value} cannot be loaded: {exc}") from exc
    if not isinstance(system, System):
        raise BadSystem(scheme, reason=f"{value} is {system!r}; needed: a playhead.systems.System")
    return system


def _offered() -> Iterator[tuple[str, tuple[str, Callable[[], object]]]]:
    """Return the systems of installed packages; the working folder does not count as installed."""
    from importlib import metadata  # Slower than everything else in this module, and seldom needed.

    found = metadata.distributions(path=_installed_paths())
    for distribution in found:
        for entry in distribution.entry_points.select(group=ENTRY_POINTS):
            yield entry.name, (entry.value, entry.load)


def _installed_paths() -> list[str]:
    """Return Python's module paths without the working folder and its subfolders.

    Environments in the working folder, such as `.venv`, do count: their packages are installed. `/` is
    the working folder of services and contains no clone.
    """
    from site import getusersitepackages

    here = Path.cwd()
    trusted = [Path(each) for each in (sys.prefix, sys.base_prefix, getusersitepackages())]
    absolute = [path for path in map(Path, sys.path) if path.is_absolute()]
    return [
        str(path)
        for path in absolute
        if here == Path("/")
        or not any(each.is_relative_to(here) for each in (path, Path(os.path.realpath(path))))
        or any(map(path.is_relative_to, trusted))
    ]
