"""The commands of `playhead queries`."""
