"""Playhead: wind a topic back and play it again, exactly once, with a proof."""

import importlib
import typing

from playhead.version import __version__

if typing.TYPE_CHECKING:
    from playhead.endpoint import files, kafka, postgres
    from playhead.pace import Pace
    from playhead.plan import Plan
    from playhead.proof import Proof
    from playhead.replay.api import Planned, Replay
    from playhead.span import Span
    from playhead.standby.api import Standby

__all__ = [
    "Pace",
    "Plan",
    "Planned",
    "Proof",
    "Replay",
    "Span",
    "Standby",
    "__version__",
    "files",
    "kafka",
    "postgres",
]
_WHERE = {
    "Pace": "playhead.pace",
    "Plan": "playhead.plan",
    "Planned": "playhead.replay.api",
    "Proof": "playhead.proof",
    "Replay": "playhead.replay.api",
    "Span": "playhead.span",
    "Standby": "playhead.standby.api",
}
_PACKAGES = ("files", "kafka", "postgres")


def __getattr__(name: str) -> typing.Any:
    """Load a public name when it is first used, so that importing the package alone is fast."""
    if name in _PACKAGES:
        return importlib.import_module(f"playhead.{name}")  # and can be called, see facade.py
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'playhead' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
