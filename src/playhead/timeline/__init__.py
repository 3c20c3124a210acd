"""Timelines: how many records there are over time, as numbers, text and SVG."""
