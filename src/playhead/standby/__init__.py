"""Standbys: replays that are saved under a name, and run when they get a span."""
