"""The one place that knows Playhead's version."""

__version__ = "0.1.0"
