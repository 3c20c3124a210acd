"""The commands around a replay."""
