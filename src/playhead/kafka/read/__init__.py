"""Reads a log: records, times, absent offsets."""
