"""`Standby`: what a program does with a replay that waits for its span."""

from typing import Self

from playhead.config.context import Configuration
from playhead.config.guards import Consent
from playhead.proof import Proof
from playhead.replay.api import Planned, Replay
from playhead.span import Span
from playhead.standby.create import make
from playhead.standby.runner import RunHooks, plan, run
from playhead.standby.store import SavedStandby, Standbys


class Standby(SavedStandby):
    """A replay that waits for its span: saved under a name, planned and run over a span."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        name: str,
        replay: Replay,
        configuration: Configuration | None = None,
        *,
        check: bool = True,
    ) -> Self:
        """A replay as a standby, its span left out; checked now unless that is not wanted."""
        return cls._from(make(name, replay.request(), configuration, check=check))

    @classmethod
    def named(cls, name: str) -> Self:
        """The saved one of this name."""
        return cls._from(Standbys().get(name))

    @classmethod
    def _from(cls, saved: SavedStandby) -> Self:
        return cls(**{name: getattr(saved, name) for name in SavedStandby.__slots__})

    def save(self, *, replace: bool = False) -> None:
        """Keep it under its name; refuses a name that is taken unless `replace`."""
        Standbys().add(self, replace=replace)

    def plan(self, span: Span | str) -> Planned:
        """What a run would do; writes nothing, not even into its history."""
        return plan(self, span)

    def run(self, span: Span | str, *, trigger: str = "python", consent: Consent = None) -> Proof:
        """Run the saved one of this name over a span; refused while another run of it goes on.

        A context marked production wants `consent`, as `Planned.run` does.
        """
        face = RunHooks(play=lambda planned: planned.run(consent=consent))
        return run(self.name, span, trigger=trigger, face=face)
