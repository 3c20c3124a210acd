"""Replays that are saved under a name and lie dormant until somebody says a span."""
