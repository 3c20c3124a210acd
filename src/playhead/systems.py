"""The table of systems: which package describes each kind of endpoint, ours or one that was installed."""

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
"""The group in which a package from outside names its `System`; the entry point's name is the scheme."""
Kind = Literal["table", "topic", "archive", "capture", "other"]


class System:
    """What a system says of itself; `MakesSource` and `MakesTarget` say what else it can be asked."""

    kind: Kind = "other"
    """Which rules of a request go with it: those of tables, of topics, of archives, of captured traffic."""
    examples: ClassVar[Mapping[str, str]]
    """By scheme, how its endpoints are written; a source or a target has these schemes and no others."""
    is_live_source = False
    is_live_target = False

    def parse(self, text: str, scheme: str, rest: str) -> "Endpoint":
        """The endpoint that a text means, `scheme:rest`; raises `BadEndpoint`."""
        raise NotImplementedError

    def text(self, end: "Endpoint") -> str:
        """The endpoint as `parse` takes it."""
        return f"{end.system}:{end.name}"

    def from_anywhere(self, end: "Endpoint") -> "Endpoint":
        """The endpoint with its paths made absolute, so that it means the same in another folder."""
        return end

    def is_same_server(
        self, _one: "Endpoint", _other: "Endpoint", _configuration: "Configuration"
    ) -> bool:
        """Whether equal names at two endpoints of this system are one thing."""
        return False


@runtime_checkable
class MakesSource(Protocol):
    """A system that records come from."""

    def source(
        self, end: "Endpoint", spec: "ReplaySpec", configuration: "Configuration", /
    ) -> "Source":
        """Describe the source; connect to nothing."""
        ...


@runtime_checkable
class MakesTarget(Protocol):
    """A system that records go to."""

    def target(
        self, end: "Endpoint", spec: "ReplaySpec", configuration: "Configuration", /
    ) -> "Target":
        """Describe the target; connect to nothing. `spec` names the source and the rules."""
        ...


class Row(NamedTuple):
    """One system of ours; its module is imported when an endpoint of it is met."""

    schemes: tuple[str, ...]
    module: str


OURS = (
    Row(("kafka",), "playhead.kafka.system"),
    Row(("postgres", "postgresql"), "playhead.postgres.system"),
    Row(("parquet", "json", "csv"), "playhead.files.system"),
    Row(("sqlite",), "playhead.sqlite.system"),
    Row(("rrpair", "extract", "gor", "har"), "playhead.traffic.system"),
)


class BadSystem(UsageError):
    """An installed package offers a system that cannot be used."""

    def __init__(self, scheme: str, *, reason: str) -> None:
        self.scheme, self.reason = scheme, reason
        super().__init__(
            f"system {scheme!r}: {reason}",
            hint=f"see which packages offer it: the entry points of the group {ENTRY_POINTS}",
        )


@cache
def system_named(scheme: str) -> System | None:
    """The system with this scheme: ours, else the one that an installed package offers."""
    for row in OURS:
        if scheme in row.schemes:
            return _described(row)
    return _installed(scheme)


def ours() -> Iterator[System]:
    """All systems of this package."""
    return map(_described, OURS)


def schemes() -> list[str]:
    """Every scheme that an endpoint can have, those of installed packages included."""
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
    """What installed packages offer. A folder that we merely stand in has installed nothing."""
    from importlib import metadata  # takes longer than all else here, and is seldom needed

    found = metadata.distributions(path=_installed_paths())
    for distribution in found:
        for entry in distribution.entry_points.select(group=ENTRY_POINTS):
            yield entry.name, (entry.value, entry.load)


def _installed_paths() -> list[str]:
    """Where Python looks for modules, without the working folder and the folders in it.

    An environment may lie there, as `.venv` often does: its packages are installed. In `/` a service
    starts, and no clone lies there.
    """
    from site import getusersitepackages

    here = Path.cwd()
    trusted = [Path(each) for each in (sys.prefix, sys.base_prefix, getusersitepackages())]
    absolute = [path for path in map(Path, sys.path) if path.is_absolute()]
    return [
        str(path)
        for path in absolute
        if here == Path("/")
        or not any(each.is_relative_to(here) for each in (path, path.resolve()))
        or any(map(path.is_relative_to, trusted))
    ]
