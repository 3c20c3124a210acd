"""Playhead: wind a topic back and play it again, exactly once, with a proof."""

from playhead.version import __version__

__all__ = ["__version__"]
