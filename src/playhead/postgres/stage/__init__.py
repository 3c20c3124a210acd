"""Stages rows and merges them into a table by its conflict rule."""
