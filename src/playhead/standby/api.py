"""`Standby`, for programs: a saved replay that runs when it gets a span."""

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
    """A replay saved under a name, planned and run over a span."""

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
        """Make a standby of a replay, without its span; check it now by default."""
        return cls._from(make(name, replay.request(), configuration, check=check))

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the saved standby of this name."""
        return cls._from(Standbys().get(name))

    @classmethod
    def _from(cls, saved: SavedStandby) -> Self:
        return cls(**{name: getattr(saved, name) for name in SavedStandby.__slots__})

    def save(self, *, replace: bool = False) -> None:
        """Save it under its name; refuse a name that is taken unless `replace`."""
        Standbys().add(self, replace=replace)

    def plan(self, span: Span | str) -> Planned:
        """Return the plan of a run; write nothing, not even into its history."""
        return plan(self, span)

    def run(
        self,
        span: Span | str,
        *,
        trigger: str = "python",
        consent: Consent = None,
        again: bool = False,
    ) -> Proof:
        """Run the saved standby over a span; refuse while another run of it is active.

        A context marked production requires `consent`, and a second copy into a topic `again`, as for
        `Planned.run`.
        """
        face = RunHooks(play=lambda planned: planned.run(consent=consent, again=again))
        return run(self.name, span, trigger=trigger, face=face)
